"""Lowerings of MXNet's operators to parts of `csrc/nnvm/parts` or to MXNet's own, and three passes that every graph gets."""

from tofu.lowering import Lowering
from tofu.mxnet.lowerings import group_norm, indexing, loss, moments, normalization, softmax, spatial
from tofu.mxnet.lowerings.attention_heads import unmerge_heads
from tofu.mxnet.lowerings.completion import fill_unwritten, mend_scratch

LOWERINGS: dict[str, Lowering] = {
    **group_norm.LOWERINGS,
    **indexing.LOWERINGS,
    **loss.LOWERINGS,
    **moments.LOWERINGS,
    **normalization.LOWERINGS,
    **softmax.LOWERINGS,
    **spatial.LOWERINGS,
}
"""Operator -> its lowering."""

__all__ = ["LOWERINGS", "fill_unwritten", "mend_scratch", "unmerge_heads"]
