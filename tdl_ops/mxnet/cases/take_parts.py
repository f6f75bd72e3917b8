from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import whole

LOOKUPS = [  # attributes; shapes of the table, the indices (some out of range), and the result
    ({"rows": 7, "names": "i0 i1 e"}, (7, 5), (5, 3), (5, 3, 5)),
    ({"rows": 7, "names": "a0 i0 z0", "axis": 1, "mode": "wrap"}, (4, 7, 3), (5,), (4, 5, 3)),
]

CASES = [
    *(
        Case("_tofu_take", attributes, [table, whole(-9, 18, *indices)], ())
        for attributes, table, indices, _ in LOOKUPS
    ),
    *(
        Case("_tofu_take_backward", attributes | {"extent": 7}, [taken, whole(-9, 18, *indices)], ())
        for attributes, _, indices, taken in LOOKUPS
    ),
    *(
        case
        for keepdims, picked, indices in (
            (False, (5, 3), (5, 3)),
            (True, (5, 1, 3), (5, 1, 3)),
            (True, (5, 1, 3), (5, 3)),
        )
        for attributes in ({"axis": 1, "rows": 7, "mode": "wrap", "keepdims": keepdims},)
        for case in (
            Case("_tofu_pick", attributes, [(5, 7, 3), whole(-9, 18, *indices)], ()),
            Case("_tofu_pick_backward", attributes | {"extent": 7}, [picked, whole(-9, 18, *indices)], ()),
        )
    ),
    *(
        case
        for axis, data, picked in ((0, (7, 5, 3), (5, 3)), (1, (5, 7, 3, 2), (5, 3, 2)))
        for names in (" ".join(["b", "i0", "i1"][: len(picked)]),)
        for attributes in ({"axis": axis, "rows": 7, "mode": "length", "names": names},)
        for case in (
            Case("_tofu_pick", attributes, [data, whole(-1, 10, 5)], ()),
            Case("_tofu_pick_backward", attributes | {"extent": 7}, [picked, whole(-1, 10, 5)], ()),
        )
    ),
]
