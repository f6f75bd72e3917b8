"""Lowerings: stock operators in parts, where their own kernel cannot be split along an axis that matters; see decision 17.

What a lowering is, and the graphs that follow; the lowerings themselves are the front end's (`tofu.mxnet.lowerings`).
"""

from tofu.lowering.choice import Settled, prepare_inference, settle
from tofu.lowering.expansion import lower
from tofu.lowering.registry import lowered_operators

__all__ = ["Settled", "lower", "lowered_operators", "prepare_inference", "settle"]
