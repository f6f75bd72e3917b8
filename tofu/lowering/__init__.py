"""Lowerings, which replace an operator by several smaller ones, its *parts* (decision 17).

An operator is lowered if its kernel cannot be split along an axis that matters, but the kernels of the parts can. Front
ends provide the lowerings of their operators.
"""

from tofu.lowering.expansion import lower
from tofu.lowering.parts import LowerableOperators, Lowering, Lowerings, Parts, find_lowering
from tofu.lowering.restoration import prepare_inference, restore_whole_operators

__all__ = [
    "LowerableOperators",
    "Lowering",
    "Lowerings",
    "Parts",
    "find_lowering",
    "lower",
    "prepare_inference",
    "restore_whole_operators",
]
