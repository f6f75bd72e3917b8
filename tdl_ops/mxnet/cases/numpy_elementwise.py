from math import inf, nan

from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu.verification.numbers import Fixed, Numbers, rounded

WITH_GRADIENTS = ("arctan2", "copysign", "ldexp")
INTEGER = ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm")
TESTS = ("isnan", "isinf", "isfinite", "isposinf", "isneginf")
SPECIAL = Fixed(((1.5, nan, -inf), (inf, -2.0, nan), (0.0, 7.0, inf), (-inf, 3.0, -0.5), (2.0, 4.0, 8.0)))


def integers(*shape: int) -> Numbers:
    return Numbers(1, 90, shape, "int32", is_whole=True)


CASES = [
    *(Case(f"_npi_{name}", {}, [(5, 1, 7), (3, 1)], None, SINGLE_PRECISION) for name in WITH_GRADIENTS),  # log(2)
    *(
        Case(f"_npi_{r}{name}_scalar", {"scalar": 1.5}, [(5, 7)], None, SINGLE_PRECISION)
        for name in ("arctan2", "ldexp")
        for r in ("", "r")
    ),
    *(Case(f"_npi_{r}copysign_scalar", {"scalar": -1.5}, [(5, 7)], wrt=()) for r in ("", "r")),
    *(Case(f"_npi_{name}", {}, [integers(5, 1), integers(7)], wrt=()) for name in INTEGER),
    *(Case(f"_npi_{name}_scalar", {"scalar": 12}, [integers(5, 7)], wrt=()) for name in INTEGER),
    *(Case(f"_npi_{name}", {}, [SPECIAL], wrt=()) for name in TESTS),
    Case("_npi_bitwise_not", {}, [integers(5, 7)], wrt=()),
    Case("_npi_nan_to_num", {"nan": 0.5, "posinf": 9.0, "neginf": -9.0}, [SPECIAL]),
    Case("_npi_full_like", {"fill_value": 2.5}, [(5, 7)], wrt=()),
    Case("_npi_where", {}, [rounded(5, 7), (5, 7), (5, 7)]),
    Case("_npi_where", {}, [rounded(5, 1, 7), (3, 7), (5, 3, 1)]),
    Case("_npi_where_lscalar", {"scalar": 2.5}, [rounded(5, 1, 7), (5, 3, 1)], wrt=()),
    Case("_npi_where_rscalar", {"scalar": 2.5}, [rounded(5, 1), (5, 3)], wrt=()),
    Case("_npi_where_scalar2", {"x": 1.5, "y": -2.5}, [rounded(5, 7)], wrt=()),
]
