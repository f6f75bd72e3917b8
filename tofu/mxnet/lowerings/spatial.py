"""Lowerings of operators over images, to split rows and columns.

- Average pooling becomes a sum, and a division by the number of elements in each window, one dimension at a time
  (`csrc/nnvm/parts/pooling.cc`). Windows at a border are smaller if padding does not count. The stock kernel would
  take a shard's border for a border of the data.
- BilinearResize2D becomes a pass over the rows, which every worker computes whole, and a pass over the columns, which
  is split by rows. The kernel derives the scale from sizes, so only a dimension that keeps its size can be split.
- UpSampling (bilinear) becomes a deconvolution.
- SpatialTransformer becomes its own kernel, which computes the sampled places, and BilinearSampler, which reads the
  places of a worker. Places must be equal to the last bit, since rounding decides the slope between two elements.
- DeformableConvolution: each worker reads all data at its part of the offsets (`deformable.cc`).
- MultiProposal is split by batch: each worker numbers its samples from the beginning of its shard (`proposal.cc`).

`tdl_ops/mxnet/pooling_parts.py`, `deformable.py` and `proposal.py` describe the parts.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from tdl_ops.mxnet.attributes import CHANNELS_LAST, parse_attribute
from tofu.graph import Operator
from tofu.lowering.parts import Attributes, Inputs, Lowering, Parts
from tofu.mxnet.frontend.origin import find_origin
from tofu.mxnet.lowerings.conventions import check_type, is_true, select_attributes

DIVIDE_BY_WINDOW = "_tofu_divide_by_window"
SUM_POOLING = {"pool_type": "sum"}
RESIZE = "_contrib_BilinearResize2D"
DEFORMABLE = "_contrib_DeformableConvolution"
DEFORMABLE_PART = "_tofu_deformable_convolution"
Size = tuple[int, ...]


def _read_extents(attributes: Attributes, name: str) -> tuple[int, ...]:
    return tuple(parse_attribute(attributes.get(name, "()"), ()))


def _is_uneven(operator: Operator, inputs: Inputs) -> bool:
    attributes = operator.attributes
    if attributes.get("pool_type") != "avg" or is_true(attributes, "global_pool", False):
        return False
    is_padding_left_out = any(_read_extents(attributes, "pad")) and not is_true(attributes, "count_include_pad", True)
    return is_padding_left_out or attributes.get("pooling_convention", "valid") != "valid"


def _list_windows(parts: Parts, data: int) -> list[dict[str, str]]:
    """Return the attributes of the division along each dimension of the input `data`. Elements from `begin` to `end` count."""
    attributes = parts.whole.attributes
    shape, is_last = parts.shape(data), attributes.get("layout") in CHANNELS_LAST
    first, space = (1, shape[1:-1]) if is_last else (2, shape[2:])
    kernel, stride, pad = (_read_extents(attributes, name) for name in ("kernel", "stride", "pad"))
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
    shape, dtype = parts.graph_tensors[like].shape, parts.graph_tensors[like].dtype
    for window in windows:
        name = f"average{window['axis']}"
        average = parts.inner_tensor(name, shape, check_type(parts.whole, dtype))
        parts.inner_operator(name, DIVIDE_BY_WINDOW, window, (tensor,), (average,))
        tensor = average
    return tensor


def _expand_pooling(parts: Parts) -> None:
    (data,), out = parts.whole.inputs, parts.whole.outputs[0]
    like = parts.graph_tensors[out]
    *inner, last = _list_windows(parts, 0)
    sums = parts.inner_tensor("sum", like.shape, check_type(parts.whole, like.dtype))
    parts.inner_operator("sum", "Pooling", {**parts.whole.attributes, **SUM_POOLING}, (data,), (sums,))
    parts.last_operator(DIVIDE_BY_WINDOW, last, (_divide(parts, sums, inner, out),))


def _expand_pooling_backward(parts: Parts) -> None:
    d_out, data, out = parts.whole.inputs
    windows = _list_windows(parts, 1)
    inputs = (_divide(parts, d_out, windows, d_out), data, out)
    origin = replace(find_origin(parts.whole), rewritten=SUM_POOLING)
    parts.last_operator(parts.whole.op, {**parts.whole.attributes, **SUM_POOLING}, inputs, origin=origin)


def _has_one_gradient(operator: Operator, inputs: Inputs) -> bool:
    """Return True unless there is a second gradient: zeros, for a tensor of which only the size is used."""
    return not operator.op.startswith("_backward") or operator.attributes.get("mode") != "like"


def _resize_attributes(parts: Parts, size: Size) -> dict[str, str]:
    kept = select_attributes(parts.whole.attributes, "align_corners")
    return {"height": str(size[0]), "width": str(size[1]), **kept}


def _resize_names(before: Size, after: Size, candidates: str) -> tuple[tuple[str, ...], ...]:
    """Return the names of the dimensions of a pass. Only dimensions that keep their size get a candidate as name."""
    sizes = zip("ij", before, after, strict=True)
    names = ("b0", "b1", *(name if name in candidates and old == new else "" for name, old, new in sizes))
    return names, names


def _expand_resize(parts: Parts) -> None:
    """Resize the rows first, or last in the gradient.

    The passes of the gradient copy the model's node. MXNet cannot infer shapes for such a node created by its name.
    """
    op, (data, *_), before, after = parts.whole.op, parts.whole.inputs, parts.shape(0)[2:], parts.output_shape(0)[2:]
    is_backward, candidates = op.startswith("_backward"), "ij"
    origin = find_origin(parts.whole) if is_backward else None
    if all(old != new for old, new in zip(before, after, strict=True)):
        candidates = "i"
        between = (before[0], after[1]) if is_backward else (after[0], before[1])
        resized = parts.inner_tensor("resized", (*parts.shape(0)[:2], *between), parts.graph_tensors[data].dtype)
        names = _resize_names(before, between, candidates)
        parts.inner_operator("first", op, _resize_attributes(parts, between), (data,), (resized,), origin, names)
        data, before = resized, between
    names = _resize_names(before, after, candidates)
    parts.last_operator(op, _resize_attributes(parts, after), (data,), origin=origin, names=names)


def _is_bilinear(operator: Operator, inputs: Inputs) -> bool:
    return operator.attributes.get("sample_type") == "bilinear"


def _expand_upsampling(parts: Parts) -> None:
    scale, channels = int(parts.whole.attributes["scale"]), str(parts.shape(0)[1])
    window = {"kernel": 2 * scale - scale % 2, "stride": scale, "pad": ceil((scale - 1) / 2)}
    attributes = {name: str((size, size)) for name, size in window.items()}
    groups = {"num_filter": channels, "num_group": channels, "no_bias": "True"}
    planes = ("b", "c", "y", "x")
    parts.last_operator(
        "Deconvolution", attributes | groups, parts.whole.inputs, names=(planes, ("c", "", "", ""), planes)
    )


IMAGE, GRID = ("b", "c", "y", "x"), ("b", "", "y", "x")
WHOLE = ("b", "", "", "")  # an image that is not split in space


def _expand_transformer(parts: Parts) -> None:
    whole, dtype = parts.whole, parts.graph_tensors[parts.whole.inputs[0]].dtype
    data, loc = whole.inputs
    sampled, targets, sources = whole.outputs
    batch, _, height, width = parts.output_shape(0)
    small, shape = (batch, 1, 1, 1), (batch, 2, height, width)
    nothing = parts.inner_tensor("nothing", small, dtype)
    parts.inner_operator("zeros", "_zeros", {"shape": str(small), "dtype": dtype}, (), (nothing,), names=(WHOLE,))
    unused = parts.inner_tensor("unused", (batch, 1, height, width), dtype)
    written = unused, targets, sources
    names = WHOLE, ("b", ""), WHOLE, ("", ""), ("b", "", "")
    # A copy of the model's node, since the gradient's kernel needs its state.
    parts.inner_operator("places", whole.op, whole.attributes, (nothing, loc), written, find_origin(whole), names)
    grid = parts.inner_tensor("grid", shape, dtype)
    shaped = ("b", "", ""), GRID
    parts.inner_operator("shaped", "Reshape", {"shape": str(shape)}, (sources,), (grid,), names=shaped)
    scratch = parts.inner_tensor("scratch", (batch, height, width, 2), dtype)
    called = ("b", "c", "", ""), GRID, IMAGE, ("b", "y", "x", "")
    parts.last_operator("BilinearSampler", {}, (data, grid), outputs=(sampled, scratch), names=called)


def _expand_deformable(parts: Parts) -> None:
    parts.last_operator(DEFORMABLE_PART, parts.whole.attributes, parts.whole.inputs)


def _expand_deformable_gradient(parts: Parts) -> None:
    parts.last_operator(f"{DEFORMABLE_PART}_backward", parts.whole.attributes, parts.whole.inputs)


def _is_single(operator: Operator, inputs: Inputs) -> bool:
    return all(tensor.dtype == "float32" for tensor in inputs)


def _expand_proposal(parts: Parts) -> None:
    parts.last_operator("_tofu_multi_proposal", parts.whole.attributes, parts.whole.inputs)


LOWERINGS = {
    "Pooling": Lowering(_expand_pooling, is_possible=_is_uneven),
    "_backward_Pooling": Lowering(_expand_pooling_backward, is_possible=_is_uneven),
    RESIZE: Lowering(_expand_resize),
    f"_backward{RESIZE}": Lowering(_expand_resize, is_possible=_has_one_gradient),
    "UpSampling": Lowering(_expand_upsampling, is_possible=_is_bilinear),
    "SpatialTransformer": Lowering(_expand_transformer),
    DEFORMABLE: Lowering(_expand_deformable),
    f"_backward_{DEFORMABLE}": Lowering(_expand_deformable_gradient),
    "_contrib_MultiProposal": Lowering(_expand_proposal, is_possible=_is_single),
}
