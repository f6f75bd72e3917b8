"""Lowerings: stock operators in parts, where their own kernel cannot be split along an axis that matters; see decision 17."""

from tofu.lowering import batch_norm as batch_norm
from tofu.lowering import layer_norm as layer_norm
from tofu.lowering import make_loss as make_loss
from tofu.lowering import one_hot as one_hot
from tofu.lowering import pick as pick
from tofu.lowering import pooling as pooling
from tofu.lowering import sequence as sequence
from tofu.lowering import softmax as softmax
from tofu.lowering import softmax_output as softmax_output
from tofu.lowering import take as take
from tofu.lowering.expansion import lower
from tofu.lowering.registry import lowered_operators
from tofu.lowering.scratch import mend_scratch
from tofu.lowering.settling import Settled, prepare_inference, settle
from tofu.lowering.unwritten import fill_unwritten

__all__ = [
    "Settled",
    "fill_unwritten",
    "lower",
    "lowered_operators",
    "mend_scratch",
    "prepare_inference",
    "settle",
]
