from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import uniform, whole

SEQUENCES = [(0, (7, 5, 3), (5,)), (1, (5, 7), (5,))]  # the dimension of time, the shapes of data and lengths

CASES = [
    Case(
        "_tofu_one_hot", {"extent": 7, "mode": "exact", "on_value": 1.5, "off_value": -0.5}, [whole(-3, 12, 5, 3)], ()
    ),
    *(
        Case("_tofu_sequence_mask", {"axis": axis, "off_value": -1.5}, [data, uniform(0, 9, *lengths)], ())
        for axis, data, lengths in SEQUENCES
    ),
]
