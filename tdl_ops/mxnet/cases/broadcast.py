from tdl_ops.mxnet.case import Case
from tdl_ops.mxnet.cases.binary import COMPARISONS
from tofu.verification.numbers import rounded, uniform

CASES = [
    *(Case(f"broadcast_{name}", {}, [(5, 1, 7), uniform(0.3, 1, 1, 3, 7)]) for name in ["add", "sub", "mul", "div"]),
    *(
        Case(f"broadcast_{name}", {}, [uniform(0.3, 3, 5, 3), uniform(0.3, 2, 5, 1)])
        for name in ["mod", "power", "maximum", "minimum", "hypot"]
    ),
    *(Case(f"broadcast_{name}", {}, [rounded(5, 7), rounded(1, 7)]) for name in COMPARISONS.split()),
    Case("broadcast_axis", {"axis": 1, "size": 7}, [(5, 1, 3)]),
    Case("broadcast_axis", {"axis": (0, 2), "size": (5, 4)}, [(1, 3, 1)]),
    Case("broadcast_to", {"shape": (5, 7)}, [(5, 1)]),
    Case("broadcast_like", {}, [(5, 1), (5, 7)]),
    Case("broadcast_like", {"lhs_axes": (1,), "rhs_axes": (-2,)}, [(4, 1, 5), (6, 3)]),
]
