from itertools import product

from tdl_ops.mxnet.case import Case
from tdl_ops.mxnet.cases.factorization import POSITIVE

BOOLEANS = (False, True)

PRODUCTS = [
    case
    for a, b in product(BOOLEANS, BOOLEANS)
    for flags in ({"transpose_a": a, "transpose_b": b, "alpha": 0.5},)
    for shapes in ([(3, 5, 4) if a else (3, 4, 5), (3, 7, 5) if b else (3, 5, 7)],)
    for case in (
        Case("_linalg_gemm2", flags, shapes),
        Case("_linalg_gemm", {**flags, "beta": 2.0}, [*shapes, (3, 4, 7)]),
    )
]
CASES = [
    *PRODUCTS,
    Case("_linalg_gemm2", {"axis": 0}, [(4, 3, 5), (5, 3, 6)]),
    Case("_linalg_gemm2", {}, [(4, 5), (5, 6)]),
    *(Case("_linalg_syrk", {"transpose": t, "alpha": 0.5}, [(3, 4, 5)]) for t in BOOLEANS),
    *(
        Case(
            name,
            {"transpose": t, "rightside": right, "lower": low, "alpha": 0.5},
            [POSITIVE, (3, 5, 4) if right else (3, 4, 5)],
        )
        for name in ("_linalg_trmm", "_linalg_trsm")
        for t, right, low in product(BOOLEANS, BOOLEANS, BOOLEANS)
    ),
]
