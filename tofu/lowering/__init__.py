"""Lowerings: stock operators in parts, where their own kernel cannot be split along an axis that matters; see decision 17.

What a lowering is, and the graphs that follow; the lowerings themselves are the front end's.
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
