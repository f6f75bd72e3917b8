from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import rounded, uniform

COMPARISONS = "equal not_equal greater greater_equal lesser lesser_equal logical_and logical_or logical_xor"

CASES = [
    *(Case(f"elemwise_{name}", {}, [(5, 7), uniform(0.3, 1, 5, 7)]) for name in ["add", "sub", "mul", "div"]),
    *(
        Case(f"_{name}", {}, [uniform(0.3, 3, 5, 7), uniform(0.3, 2, 5, 7)])
        for name in ["mod", "power", "maximum", "minimum", "hypot"]
    ),
    *(Case(f"_{name}", {}, [rounded(5, 7), rounded(5, 7)]) for name in COMPARISONS.split()),
    Case("_grad_add", {}, [(5, 7), (5, 7)], wrt=()),
    Case("add_n", {"num_args": 3}, [(5, 7), (5, 7), (5, 7)]),
    Case("where", {}, [rounded(5, 7), (5, 7), (5, 7)]),
    Case("where", {}, [rounded(5), (5, 7), (5, 7)]),
]
