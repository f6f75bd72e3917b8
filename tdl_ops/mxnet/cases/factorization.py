from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import Fixed

# A symmetric positive definite matrix for each of three samples.
MATRICES = tuple(
    tuple(tuple(d + (4.0 + d if i == j else 1 / (1 + i + j + d)) for j in range(4)) for i in range(4))
    for d in (0.25, 0.5, 1.0)
)
POSITIVE = Fixed(MATRICES)

CASES = [
    *(Case(f"_linalg_{name}", {"lower": lower}, [POSITIVE]) for name in ("potrf", "potri") for lower in (True, False)),
    *(Case(f"_linalg_{name}", {}, [POSITIVE]) for name in ("inverse", "det", "slogdet", "syevd")),
    Case("_linalg_gelqf", {}, [(3, 2, 4)]),
    Case("_linalg_det", {}, [(3, 3, 3)]),
    Case("_linalg_slogdet", {}, [(3, 3, 3)]),
]
