"""The lowerings of MXNet's operators, one a file, with kernels in one file of `csrc/nnvm/parts`. And two repairs that every graph gets."""

from tofu.lowering import Lowering
from tofu.mxnet.lowerings import (
    batch_norm,
    layer_norm,
    loss,
    one_hot,
    pick,
    pooling,
    sequence,
    softmax,
    softmax_output,
    take,
)
from tofu.mxnet.lowerings.scratch import mend_scratch
from tofu.mxnet.lowerings.unwritten import fill_unwritten

LOWERINGS: dict[str, Lowering] = {
    **batch_norm.LOWERINGS,
    **layer_norm.LOWERINGS,
    **loss.LOWERINGS,
    **one_hot.LOWERINGS,
    **pick.LOWERINGS,
    **pooling.LOWERINGS,
    **sequence.LOWERINGS,
    **softmax.LOWERINGS,
    **softmax_output.LOWERINGS,
    **take.LOWERINGS,
}
"""By operator."""

__all__ = ["LOWERINGS", "fill_unwritten", "mend_scratch"]
