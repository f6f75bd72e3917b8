"""Rules (*lowerings*) that replace an operator by several smaller operators, which can be split in more ways.

The smaller operators are called *parts*. A part is an operator of MXNet or of Tofu. Tofu's operators have kernels in
`csrc/nnvm/parts` and descriptions in `tdl_ops/mxnet`. This package also has three passes that run on every graph.
"""

from tofu.lowering import Lowering
from tofu.mxnet.lowerings import group_norm, indexing, loss, moments, normalization, softmax, spatial
from tofu.mxnet.lowerings.attention_heads import unmerge_heads
from tofu.mxnet.lowerings.completion import complete_reads
from tofu.mxnet.lowerings.joins import read_through_slices

LOWERINGS: dict[str, Lowering] = {
    **group_norm.LOWERINGS,
    **indexing.LOWERINGS,
    **loss.LOWERINGS,
    **moments.LOWERINGS,
    **normalization.LOWERINGS,
    **softmax.LOWERINGS,
    **spatial.LOWERINGS,
}
"""The rule for each operator, by the operator's type."""

__all__ = ["LOWERINGS", "complete_reads", "read_through_slices", "unmerge_heads"]
