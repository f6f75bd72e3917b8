"""Verification: descriptions and their strategies against MXNet's own kernels, in float64 on small inputs.

An operator counts as described only if (a) its description, evaluated with NumPy, has the kernel's numbers, and (b) for each of its
strategies, the kernel run on every part gives the whole result. The paper leaves this check as an open problem (section 9).
"""

from tofu.verify.operators import verify_operator
from tofu.verify.report import TOLERANCE, NodeReport, Report, StrategyReport

__all__ = ["TOLERANCE", "NodeReport", "Report", "StrategyReport", "verify_operator"]
