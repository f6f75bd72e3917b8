from itertools import product

from tdl_ops.mxnet.case import Case
from tdl_ops.mxnet.cases.factorization import POSITIVE

BOOLEANS = (False, True)
FLAGS = [{"transpose_a": a, "transpose_b": b, "alpha": 0.5} for a, b in product(BOOLEANS, BOOLEANS)]
SIDES = [
    {"transpose": t, "rightside": right, "lower": low, "alpha": 0.5}
    for t, right, low in product(BOOLEANS, BOOLEANS, BOOLEANS)
]


def _list_factors(flags):
    return [(3, 5, 4) if flags["transpose_a"] else (3, 4, 5), (3, 7, 5) if flags["transpose_b"] else (3, 5, 7)]


CASES = [
    *(Case("_linalg_gemm2", flags, _list_factors(flags)) for flags in FLAGS),
    *(Case("_linalg_gemm", {**flags, "beta": 2.0}, [*_list_factors(flags), (3, 4, 7)]) for flags in FLAGS),
    Case("_linalg_gemm2", {"axis": 0}, [(4, 3, 5), (5, 3, 6)]),
    Case("_linalg_gemm2", {}, [(4, 5), (5, 6)]),
    *(Case("_linalg_syrk", {"transpose": t, "alpha": 0.5}, [(3, 4, 5)]) for t in BOOLEANS),
    *(
        Case(name, flags, [POSITIVE, (3, 5, 4) if flags["rightside"] else (3, 4, 5)])
        for name in ("_linalg_trmm", "_linalg_trsm")
        for flags in SIDES
    ),
]
