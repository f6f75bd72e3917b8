"""Average pooling split in space where its divisor depends on the position: a sum, then each cell divided by the cells of its window.

Padding that is left out of the count, and windows that stand out, make windows at a border smaller. A copy of the stock kernel would
take the borders of its part for those of the data. The division: `csrc/nnvm/parts/pooling.cc`, described in
`tdl_ops/mxnet/pooling_parts.py`; it goes along one dimension at a time, for a window's cells are the product of its extents.
"""

from __future__ import annotations

from dataclasses import replace

from tdl_ops.mxnet.attributes import CHANNELS_LAST, parse_attribute
from tofu.graph import Operator
from tofu.lowering.parts import Attributes, Inputs, Lowering, Parts
from tofu.mxnet.frontend.origin import find_origin
from tofu.mxnet.lowerings.conventions import check_type, is_true

DIVIDE = "_tofu_divide_by_window"
SUM = {"pool_type": "sum"}


def _extents(attributes: Attributes, name: str) -> tuple[int, ...]:
    """An attribute with one number for each dimension of space; empty where it is not given."""
    return tuple(parse_attribute(attributes.get(name, "()"), ()))


def _is_uneven(operator: Operator, inputs: Inputs) -> bool:
    """Whether some windows may have fewer cells than others."""
    attributes = operator.attributes
    if attributes.get("pool_type") != "avg" or is_true(attributes, "global_pool", False):
        return False
    is_padding_left_out = any(_extents(attributes, "pad")) and not is_true(attributes, "count_include_pad", True)
    return is_padding_left_out or attributes.get("pooling_convention", "valid") != "valid"


def _windows(parts: Parts, data: int) -> list[dict[str, str]]:
    """The attributes of the division along each dimension of the input `data`; `begin` and `end` are where the cells lie that count."""
    attributes = parts.whole.attributes
    shape, is_last = parts.shape(data), attributes.get("layout") in CHANNELS_LAST
    first, space = (1, shape[1:-1]) if is_last else (2, shape[2:])
    kernel, stride, pad = (_extents(attributes, name) for name in ("kernel", "stride", "pad"))
    stride, pad = stride or (1,) * len(space), pad or (0,) * len(space)
    counted = pad if is_true(attributes, "count_include_pad", True) else (0,) * len(space)
    return [
        {
            "axis": str(d + first),
            "kernel": str(kernel[d]),
            "stride": str(stride[d]),
            "pad": str(pad[d]),
            "begin": str(-counted[d]),
            "end": str(extent + counted[d]),
            **({"layout": attributes["layout"]} if is_last else {}),
        }
        for d, extent in enumerate(space)
    ]


def _divide(parts: Parts, tensor: int, windows: list[dict[str, str]], like: int) -> int:
    """`tensor`, divided along each of the dimensions; the results are laid out as the model's tensor `like`."""
    shape, dtype = parts.graph_tensors[like].shape, parts.graph_tensors[like].dtype
    for window in windows:
        name = f"average{window['axis']}"
        average = parts.inner_tensor(name, shape, check_type(parts.whole, dtype))
        parts.inner_operator(name, DIVIDE, window, (tensor,), (average,))
        tensor = average
    return tensor


def _expand_forward(parts: Parts) -> None:
    (data,), out = parts.whole.inputs, parts.whole.outputs[0]
    like = parts.graph_tensors[out]
    *inner, last = _windows(parts, 0)
    sums = parts.inner_tensor("sum", like.shape, check_type(parts.whole, like.dtype))
    parts.inner_operator("sum", "Pooling", {**parts.whole.attributes, **SUM}, (data,), (sums,))
    parts.last_operator(DIVIDE, last, (_divide(parts, sums, inner, out),))


def _expand_backward(parts: Parts) -> None:
    d_out, data, out = parts.whole.inputs
    windows = _windows(parts, 1)
    inputs = (_divide(parts, d_out, windows, d_out), data, out)
    origin = replace(find_origin(parts.whole), rewritten=SUM)  # the operator's own node, but for its type of pooling
    parts.last_operator(parts.whole.op, {**parts.whole.attributes, **SUM}, inputs, origin=origin)


LOWERINGS = {
    "Pooling": Lowering(_expand_forward, is_possible=_is_uneven),
    "_backward_Pooling": Lowering(_expand_backward, is_possible=_is_uneven),
}
