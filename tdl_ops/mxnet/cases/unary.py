from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu.verification.numbers import rounded, single, uniform

ABOVE_ONE = uniform(1.2, 3, 5, 7)
POSITIVE = uniform(0.3, 3, 5, 7)
PLAIN = """
    abs arccos arcsin arcsinh arctan arctanh cbrt ceil cos cosh exp expm1 fix floor negative relu rint round
    sigmoid sign sin sinh softsign square tan tanh trunc _copy BlockGrad make_loss zeros_like ones_like
"""

CASES = [
    *(Case(op, {}, [(5, 7)]) for op in PLAIN.split()),
    *(Case(op, {}, [POSITIVE]) for op in ["log", "log10", "log1p", "log2", "rcbrt", "reciprocal", "rsqrt", "sqrt"]),
    *(Case(op, {}, [(5, 7)], None, SINGLE_PRECISION) for op in ["degrees", "erf", "erfinv", "hard_sigmoid", "radians"]),
    *(Case(op, {}, [POSITIVE], None, SINGLE_PRECISION) for op in ("gamma", "gammaln")),
    Case("arccosh", {}, [ABOVE_ONE]),
    Case("logical_not", {}, [rounded(5, 7)]),
    Case("Cast", {"dtype": "float64"}, [(5, 7)]),
    Case("amp_cast", {"dtype": "float32"}, [single(5, 7)]),
    Case("clip", {"a_min": -0.5, "a_max": 0.25}, [(5, 7)]),
    Case("clip", {"a_min": "-inf", "a_max": 0.25}, [(5, 7)]),
    Case("smooth_l1", {"scalar": 2.0}, [(5, 7)]),
]
