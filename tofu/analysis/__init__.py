"""Analysis of descriptions: strategies and regions from symbolic intervals (section 4.2).

A *strategy* is an axis along which an operator can be split, and a *region* is the box of a tensor that one part of the
operator reads or writes. `analyse` finds both. It analyses a description symbolically (`symbolic`, `linearity`,
`interval`), and compiles the result to a function of the shapes (`evaluator`). `axes` evaluates this function.
"""

from tofu.analysis.access import Absent, Combine, InputAccess, OperatorAccess, OutputAccess, Row
from tofu.analysis.arithmetic import Arithmetic, Operations
from tofu.analysis.interval import AffineIndex, Interval, split_affine
from tofu.analysis.signatures import analyse, find_arithmetic
from tofu.analysis.uneven import find_dimension, find_neutral, find_uneven_axes

__all__ = [
    "Absent",
    "AffineIndex",
    "Arithmetic",
    "Combine",
    "InputAccess",
    "Interval",
    "Operations",
    "OperatorAccess",
    "OutputAccess",
    "Row",
    "analyse",
    "find_arithmetic",
    "find_dimension",
    "find_neutral",
    "find_uneven_axes",
    "split_affine",
]
