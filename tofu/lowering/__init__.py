"""Lowerings: stock operators in parts, if their own kernel cannot be split along an axis that matters (decision 17).

This package defines lowerings and lowered graphs. The front ends provide the lowerings of their operators.
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
