"""Operators that replace one_hot, to split its depth `k`, and SequenceMask, to split its time.

`first` is the position in the whole tensor at which a worker's shard begins.
"""

from tdl_ops.mxnet import op
from tofu.tdl import output, position, trunc, where


@op("_tofu_one_hot", bound={"first": lambda local: local.start("k"), "extent": "k"}, starts=("k",))
def one_hot(indices, *, extent, on_value=1.0, off_value=0.0, first=0):
    is_meant = lambda k, i: position(k) + first == trunc(indices[i])
    return output("*i k", lambda k, *i: where(is_meant(k, i), on_value, off_value))


@op(
    "_tofu_sequence_mask",
    bound={"first": lambda local: local.start(f"i{local.attributes['axis']}")},
    starts=("i0", "i1"),
)
def sequence_mask(data, lengths, *, axis=0, off_value=0.0, first=0):
    is_inside = lambda i: position(i[axis]) + first < trunc(lengths[i[1 - axis]])
    return lambda *i: where(is_inside(i), data[i], off_value)
