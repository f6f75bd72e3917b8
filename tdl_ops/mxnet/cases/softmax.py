from dataclasses import replace

from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import lengths, single

LENGTHS = {
    shape: replace(lengths(longest, *shape), low=0, dtype="int32")
    for longest, shape in ((7, (5, 3)), (3, (5, 7)), (5, (1,)))
}

CASES = [
    *(
        Case(op, attributes, [(5, 3, 7)])
        for op in ("softmax", "softmin", "log_softmax")
        for attributes in ({}, {"axis": 1}, {"temperature": 2.0})
    ),
    Case("softmax", {"use_length": True}, [(5, 3, 7), LENGTHS[5, 3]]),
    Case("softmax", {"use_length": True, "axis": 1, "temperature": 2.0}, [(5, 3, 7), LENGTHS[5, 7]]),
    Case("softmax", {"use_length": True}, [(5,), LENGTHS[1,]]),
    *(Case("SoftmaxActivation", {"mode": mode}, [single(5, 3, 7)]) for mode in ("instance", "channel")),
    Case("_contrib_div_sqrt_dim", {}, [(5, 7)]),
]
