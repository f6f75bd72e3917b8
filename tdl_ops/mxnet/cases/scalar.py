from tdl_ops.mxnet.case import Case
from tdl_ops.mxnet.cases.binary import COMPARISONS
from tofu.verification.numbers import rounded, uniform

POSITIVE = uniform(0.3, 3, 5, 7)
ARITHMETIC = "plus minus rminus mul div rdiv mod rmod power rpower maximum minimum hypot"

CASES = [
    *(Case(f"_{name}_scalar", {"scalar": 2.0}, [POSITIVE]) for name in ARITHMETIC.split()),
    *(Case(f"_{name}_scalar", {"scalar": 1.0}, [rounded(5, 7)]) for name in COMPARISONS.split()),
]
