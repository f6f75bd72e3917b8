"""Replace operators on images, so that rows and columns can be split.

- Average pooling becomes a sum, and a division by the number of elements in each window. If padding is not counted, a
  window at the border of the image has fewer elements. MXNet's kernel would mistake a shard's border for the image's.
  Global pooling would divide by the number of elements in a shard.
- BilinearResize2D becomes a resize of the rows and a resize of the columns. MXNet's kernel derives the scale from the
  sizes. So each resize can only be split along the other dimension.
- UpSampling (bilinear) becomes a deconvolution.
- SpatialTransformer becomes an operator that computes positions, and a BilinearSampler. All workers must compute the
  same bits, because the gradient depends on the rounding of positions.
- DeformableConvolution: each worker reads the whole image, and only its shard of the offsets.
- MultiProposal is split by batch. MXNet's kernel would number each worker's samples from 0.

The new operators are in `csrc/nnvm/parts/pooling.cc`, `deformable.cc` and `proposal.cc`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil, prod
from typing import Any

from tdl_ops.mxnet.attributes import CHANNELS_LAST, is_true, parse_attribute
from tofu.graph import Operator
from tofu.lowering.parts import Attributes, DimensionNames, Inputs, Lowering, Parts
from tofu.mxnet.frontend.origin import find_origin
from tofu.mxnet.lowerings.composition import SUMMED_TYPES
from tofu.mxnet.lowerings.conventions import check_type, select_attributes

DIVIDE_BY_WINDOW = "_tofu_divide_by_window"
SUM_POOLING = {"pool_type": "sum"}
RESIZE = "_contrib_BilinearResize2D"
Size = tuple[int, ...]


def _read_extents(attributes: Attributes, name: str) -> tuple[int, ...]:
    return tuple(parse_attribute(attributes.get(name, "()"), ()))


def _has_other_windows_in_shards(operator: Operator, inputs: Inputs) -> bool:
    attributes = operator.attributes
    if attributes.get("pool_type") != "avg":
        return False
    if is_true(attributes, "global_pool"):
        return inputs[0].dtype in SUMMED_TYPES
    omits_padding = any(_read_extents(attributes, "pad")) and not is_true(attributes, "count_include_pad", True)
    return omits_padding or attributes.get("pooling_convention", "valid") != "valid"


def _find_space(parts: Parts, slot: int) -> tuple[int, tuple[int, ...]]:
    shape = parts.shape(slot)
    return (1, shape[1:-1]) if parts.whole.attributes.get("layout") in CHANNELS_LAST else (2, shape[2:])


def _divide_by_size(parts: Parts, slot: int) -> dict[str, Any]:
    first_dimension, space = _find_space(parts, slot)
    names = ["b", *("" for _ in space)]
    names.insert(1 if first_dimension == 2 else len(names), "c")
    return {"op": "_div_scalar", "attributes": {"scalar": str(prod(space))}, "names": (tuple(names),) * 2}


def _list_divisions(parts: Parts, slot: int) -> list[dict[str, str]]:
    attributes = parts.whole.attributes
    first_dimension, space = _find_space(parts, slot)
    kernel, stride, pad = (_read_extents(attributes, name) for name in ("kernel", "stride", "pad"))
    stride, pad = stride or (1,) * len(space), pad or (0,) * len(space)
    counted_pad = pad if is_true(attributes, "count_include_pad", True) else (0,) * len(space)
    return [
        {
            "axis": str(d + first_dimension),
            "kernel": str(kernel[d]),
            "stride": str(stride[d]),
            "pad": str(pad[d]),
            "begin": str(-counted_pad[d]),
            "end": str(extent + counted_pad[d]),
            **({"layout": attributes["layout"]} if first_dimension == 1 else {}),
        }
        for d, extent in enumerate(space)
    ]


def _add_divisions(parts: Parts, tensor: int, divisions: list[dict[str, str]], like: int) -> int:
    shape, dtype = parts.graph_tensors[like].shape, parts.graph_tensors[like].dtype
    for attributes in divisions:
        name = f"average{attributes['axis']}"
        average = parts.inner_tensor(name, shape, check_type(parts.whole, dtype))
        parts.inner_operator(name, DIVIDE_BY_WINDOW, attributes, (tensor,), (average,))
        tensor = average
    return tensor


def _expand_pooling(parts: Parts) -> None:
    (data,), out = parts.whole.inputs, parts.whole.outputs[0]
    out_tensor = parts.graph_tensors[out]
    sums = parts.inner_tensor("sum", out_tensor.shape, check_type(parts.whole, out_tensor.dtype))
    parts.inner_operator("sum", "Pooling", {**parts.whole.attributes, **SUM_POOLING}, (data,), (sums,))
    if is_true(parts.whole.attributes, "global_pool"):
        parts.last_operator(inputs=(sums,), **_divide_by_size(parts, 0))
        return
    *inner_divisions, last_division = _list_divisions(parts, 0)
    parts.last_operator(DIVIDE_BY_WINDOW, last_division, (_add_divisions(parts, sums, inner_divisions, out),))


def _expand_pooling_backward(parts: Parts) -> None:
    d_out, data, out = parts.whole.inputs
    if is_true(parts.whole.attributes, "global_pool"):
        tensor = parts.graph_tensors[d_out]
        share = parts.inner_tensor("share", tensor.shape, check_type(parts.whole, tensor.dtype))
        parts.inner_operator("share", inputs=(d_out,), outputs=(share,), **_divide_by_size(parts, 1))
    else:
        share = _add_divisions(parts, d_out, _list_divisions(parts, 1), d_out)
    inputs = (share, data, out)
    origin = replace(find_origin(parts.whole), rewritten=SUM_POOLING)
    parts.last_operator(parts.whole.op, {**parts.whole.attributes, **SUM_POOLING}, inputs, origin=origin)


def _has_one_gradient(operator: Operator, inputs: Inputs) -> bool:
    # A gradient with mode="like" has a second output.
    return not operator.op.startswith("_backward") or operator.attributes.get("mode") != "like"


def _resize_attributes(parts: Parts, size: Size) -> dict[str, str]:
    align_corners = select_attributes(parts.whole.attributes, "align_corners")
    return {"height": str(size[0]), "width": str(size[1]), **align_corners}


def _resize_names(old_size: Size, new_size: Size, splittable: str) -> tuple[tuple[str, ...], ...]:
    sizes = zip("ij", old_size, new_size, strict=True)
    names = ("b0", "b1", *(name if name in splittable and old == new else "" for name, old, new in sizes))
    return names, names


def _expand_resize(parts: Parts) -> None:
    op, (data, *_) = parts.whole.op, parts.whole.inputs
    old_size, new_size = parts.shape(0)[2:], parts.output_shape(0)[2:]
    is_backward, splittable = op.startswith("_backward"), "ij"
    origin = find_origin(parts.whole) if is_backward else None  # MXNet infers no shapes for a new gradient node
    if all(old != new for old, new in zip(old_size, new_size, strict=True)):
        splittable = "i"
        inner_size = (old_size[0], new_size[1]) if is_backward else (new_size[0], old_size[1])
        resized = parts.inner_tensor("resized", (*parts.shape(0)[:2], *inner_size), parts.graph_tensors[data].dtype)
        names = _resize_names(old_size, inner_size, splittable)
        parts.inner_operator("first", op, _resize_attributes(parts, inner_size), (data,), (resized,), origin, names)
        data, old_size = resized, inner_size
    names = _resize_names(old_size, new_size, splittable)
    parts.last_operator(op, _resize_attributes(parts, new_size), (data,), origin=origin, names=names)


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
UNSPLIT_IMAGE = ("b", "", "", "")  # an image that is not split in space


def _expand_transformer(parts: Parts) -> None:
    whole, dtype = parts.whole, parts.graph_tensors[parts.whole.inputs[0]].dtype
    data, loc = whole.inputs
    sampled, grid_targets, grid_sources = whole.outputs
    batch, _, height, width = parts.output_shape(0)
    # The transformer's kernel computes the sampled positions, from an image of one element.
    image_shape, grid_shape = (batch, 1, 1, 1), (batch, 2, height, width)
    image = parts.inner_tensor("nothing", image_shape, dtype)
    zeros = {"shape": str(image_shape), "dtype": dtype}
    parts.inner_operator("zeros", "_zeros", zeros, (), (image,), names=(UNSPLIT_IMAGE,))
    unused = parts.inner_tensor("unused", (batch, 1, height, width), dtype)
    outputs = unused, grid_targets, grid_sources
    names: DimensionNames = UNSPLIT_IMAGE, ("b", ""), UNSPLIT_IMAGE, ("", ""), ("b", "", "")
    # A copy of the model's node, because the gradient's kernel needs its state.
    parts.inner_operator("places", whole.op, whole.attributes, (image, loc), outputs, find_origin(whole), names)
    grid = parts.inner_tensor("grid", grid_shape, dtype)
    names = ("b", "", ""), GRID
    parts.inner_operator("shaped", "Reshape", {"shape": str(grid_shape)}, (grid_sources,), (grid,), names=names)
    scratch = parts.inner_tensor("scratch", (batch, height, width, 2), dtype)
    names = ("b", "c", "", ""), GRID, IMAGE, ("b", "y", "x", "")
    parts.last_operator("BilinearSampler", {}, (data, grid), outputs=(sampled, scratch), names=names)


def _replace_by(op: str) -> Callable[[Parts], None]:
    return lambda parts: parts.last_operator(op, parts.whole.attributes, parts.whole.inputs)


def _is_single(operator: Operator, inputs: Inputs) -> bool:
    return all(tensor.dtype == "float32" for tensor in inputs)


LOWERINGS = {
    "Pooling": Lowering(_expand_pooling, is_possible=_has_other_windows_in_shards),
    "_backward_Pooling": Lowering(_expand_pooling_backward, is_possible=_has_other_windows_in_shards),
    RESIZE: Lowering(_expand_resize),
    f"_backward{RESIZE}": Lowering(_expand_resize, is_possible=_has_one_gradient),
    "UpSampling": Lowering(_expand_upsampling, is_possible=_is_bilinear),
    "SpatialTransformer": Lowering(_expand_transformer),
    "_contrib_DeformableConvolution": Lowering(_replace_by("_tofu_deformable_convolution")),
    "_backward__contrib_DeformableConvolution": Lowering(_replace_by("_tofu_deformable_convolution_backward")),
    "_contrib_MultiProposal": Lowering(_replace_by("_tofu_multi_proposal"), is_possible=_is_single),
}
