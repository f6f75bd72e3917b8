from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import Fixed

CASES = [
    *(Case(f"_contrib_{name}", {}, [(5, 7)]) for name in ("round_ste", "sign_ste")),
    Case("_contrib_gradientmultiplier", {"scalar": 0.5}, [(5, 7)]),
    Case("_contrib_arange_like", {"start": 2.0, "step": 0.5, "axis": 1}, [(5, 7)]),
    Case("_contrib_arange_like", {}, [(5, 7)]),
    Case("_contrib_index_array", {}, [(5, 7)]),
    Case("_contrib_index_array", {"axes": "(2, 0)"}, [(5, 3, 7)]),
    Case("_contrib_index_array", {"axes": "(-1, -3)"}, [(5, 3, 7)]),
    Case("_contrib_index_copy", {}, [(5, 3), Fixed((3, 0, 4)), (3, 3)]),
    Case("_split_v2", {"indices": (0, 2), "axis": 1}, [(3, 5, 2)]),
    Case("_split_v2", {"indices": (), "sections": 3, "axis": -2}, [(4, 6, 2)]),
    Case("_split_v2", {"indices": (), "sections": 3, "axis": 1, "squeeze_axis": True}, [(4, 3, 2)]),
]
