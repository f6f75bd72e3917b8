"""Analysis of descriptions (section 4.2): find the axes along which an operator can be split, and what each part reads.

`analyse` is the entry point (`signatures`). It analyses a description symbolically (`symbolic`, `linearity`,
`interval`), compiles the result (`evaluator`), and evaluates it at the shapes (`axes`).
"""

from tofu.analysis.access import Absent, Combine, InputAccess, Move, OperatorAccess, OutputAccess, Row
from tofu.analysis.arithmetic import Arithmetic, Operations
from tofu.analysis.interval import AffineIndex, split_affine
from tofu.analysis.signatures import analyse, find_signature
from tofu.analysis.uneven import find_dimension, find_neutral, find_uneven_axes
