from tdl_ops.mxnet.case import Case
from tdl_ops.mxnet.cases.factorization import POSITIVE

CASES = [
    Case("_npi_solve", {}, [POSITIVE, (3, 4, 5)]),
    Case("_npi_svd", {}, [(3, 4, 5)]),
    *(Case(f"_npi_{name}", {"UPLO": half}, [(3, 4, 4)]) for name in ("eigh", "eigvalsh") for half in "LU"),
    Case("_npi_pinv_scalar_rcond", {}, [(3, 4, 5)]),
]
