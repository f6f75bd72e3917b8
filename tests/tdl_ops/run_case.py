"""Verification of one case, with its floating-point inputs in a given type."""

import numpy as np
from cases import Case

from tofu.verify import Report, verify_operator


def verify_case(case: Case, dtype: str = "float64") -> Report:
    """In float64 MXNet's own kernels run, in float32 oneDNN's wherever it has one."""
    random = np.random.RandomState(0)
    inputs = [i if isinstance(i, np.ndarray) else random.uniform(-1, 1, i) for i in case.inputs]
    inputs = [i.astype(dtype) if i.dtype == np.float64 and n not in case.double else i for n, i in enumerate(inputs)]
    tolerance = case.description_tolerance if dtype == "float64" else max(case.description_tolerance, 1e-4)
    return verify_operator(
        case.op, case.attributes, inputs, wrt=case.wrt, relations=case.relations, description_tolerance=tolerance
    )
