"""The lowerings of MXNet's operators, one a file: to parts of `csrc/nnvm/parts`, or MXNet's own. And three passes that every graph gets."""

from tofu.lowering import Lowering
from tofu.mxnet.lowerings import (
    batch_norm,
    deformable,
    group_norm,
    layer_norm,
    loss,
    moments,
    one_hot,
    pick,
    pooling,
    proposal,
    resize,
    sequence,
    softmax,
    softmax_output,
    spatial,
    take,
)
from tofu.mxnet.lowerings.heads import unmerge_heads
from tofu.mxnet.lowerings.scratch import mend_scratch
from tofu.mxnet.lowerings.unwritten import fill_unwritten

LOWERINGS: dict[str, Lowering] = {
    **batch_norm.LOWERINGS,
    **deformable.LOWERINGS,
    **group_norm.LOWERINGS,
    **layer_norm.LOWERINGS,
    **loss.LOWERINGS,
    **moments.LOWERINGS,
    **one_hot.LOWERINGS,
    **pick.LOWERINGS,
    **pooling.LOWERINGS,
    **proposal.LOWERINGS,
    **resize.LOWERINGS,
    **sequence.LOWERINGS,
    **softmax.LOWERINGS,
    **softmax_output.LOWERINGS,
    **spatial.LOWERINGS,
    **take.LOWERINGS,
}
"""By operator."""

__all__ = ["LOWERINGS", "fill_unwritten", "mend_scratch", "unmerge_heads"]
