from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import uniform

CASES = [
    Case("diag", {"k": 1}, [(3,)]),
    Case("diag", {}, [(4, 3)]),
    Case("diag", {"k": 1}, [(4, 5)]),
    Case("diag", {"k": -1, "axis1": 0, "axis2": 2}, [(5, 3, 4)]),
    *(Case("_linalg_extractdiag", {"offset": k}, [(3, 5, 5)]) for k in (0, 2)),
    *(Case("_linalg_makediag", {"offset": k}, [(3, 5)]) for k in (0, -2)),
    Case("_linalg_sumlogdiag", {}, [uniform(0.5, 2, 3, 5, 5)]),
    Case("_linalg_sumlogdiag", {}, [uniform(0.5, 2, 5, 5)]),
    Case("_linalg_extracttrian", {"lower": False}, [(3, 4, 4)]),
    Case("_linalg_extracttrian", {"offset": -1}, [(3, 4, 4)]),
    Case("_linalg_maketrian", {}, [(3, 10)]),
    Case("_linalg_maketrian", {"offset": 1}, [(3, 6)]),
]
