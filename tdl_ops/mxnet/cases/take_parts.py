from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import whole

LOOKUPS = [  # attributes; shapes of the table, the indices (some out of range), and the result
    ({"rows": 7, "names": "i0 i1 e"}, (7, 5), (5, 3), (5, 3, 5)),
    ({"rows": 7, "names": "a0 i0 z0", "axis": 1, "mode": "wrap"}, (4, 7, 3), (5,), (4, 5, 3)),
]
WRAPPED = {"axis": 1, "rows": 7, "mode": "wrap"}
LENGTHS = {"rows": 7, "mode": "length"}
PICKS = [  # attributes; the shape of the data; the indices; the shape of the result
    (WRAPPED | {"keepdims": False}, (5, 7, 3), whole(-9, 18, 5, 3), (5, 3)),
    (WRAPPED | {"keepdims": True}, (5, 7, 3), whole(-9, 18, 5, 1, 3), (5, 1, 3)),
    (WRAPPED | {"keepdims": True}, (5, 7, 3), whole(-9, 18, 5, 3), (5, 1, 3)),
    (LENGTHS | {"axis": 0, "names": "b i0"}, (7, 5, 3), whole(-1, 10, 5), (5, 3)),
    (LENGTHS | {"axis": 1, "names": "b i0 i1"}, (5, 7, 3, 2), whole(-1, 10, 5), (5, 3, 2)),
]

CASES = [
    *(Case("_tofu_take", own, [table, whole(-9, 18, *indices)], ()) for own, table, indices, _ in LOOKUPS),
    *(
        Case("_tofu_take_backward", own | {"extent": 7}, [taken, whole(-9, 18, *indices)], ())
        for own, _, indices, taken in LOOKUPS
    ),
    *(Case("_tofu_pick", own, [data, indices], ()) for own, data, indices, _ in PICKS),
    *(Case("_tofu_pick_backward", own | {"extent": 7}, [picked, indices], ()) for own, _, indices, picked in PICKS),
]
