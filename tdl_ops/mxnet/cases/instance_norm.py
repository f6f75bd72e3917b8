from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import single

CASES = [
    Case("InstanceNorm", {}, [single(5, 3, 4, 2), single(3), single(3)]),
    *(Case("L2Normalization", {"mode": mode}, [(5, 3, 4, 2)]) for mode in ("instance", "channel", "spatial")),
]
