"""The lowerings of MXNet's operators, one a file; importing the package registers all. And two repairs that every graph gets."""

from tofu.mxnet.lowerings import batch_norm as batch_norm
from tofu.mxnet.lowerings import layer_norm as layer_norm
from tofu.mxnet.lowerings import make_loss as make_loss
from tofu.mxnet.lowerings import one_hot as one_hot
from tofu.mxnet.lowerings import pick as pick
from tofu.mxnet.lowerings import pooling as pooling
from tofu.mxnet.lowerings import sequence as sequence
from tofu.mxnet.lowerings import softmax as softmax
from tofu.mxnet.lowerings import softmax_output as softmax_output
from tofu.mxnet.lowerings import take as take
from tofu.mxnet.lowerings.scratch import mend_scratch
from tofu.mxnet.lowerings.unwritten import fill_unwritten

__all__ = ["fill_unwritten", "mend_scratch"]
