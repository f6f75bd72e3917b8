"""Planes of another size, split by rows of it: BilinearResize2D in two passes, and bilinear UpSampling as the deconvolution that it is.

A kernel of BilinearResize2D takes the scale from the sizes of what it is given, so a part of a dimension comes out right where that keeps
its size. The pass over the columns keeps the rows of the result, and is split by them; each worker computes all of the pass over the rows.
"""

from __future__ import annotations

from math import ceil

from tofu.graph import Operator
from tofu.lowering.parts import Inputs, Lowering, Parts
from tofu.mxnet.frontend.origin import find_origin

RESIZE = "_contrib_BilinearResize2D"
Size = tuple[int, ...]


def _has_one_gradient(operator: Operator, inputs: Inputs) -> bool:
    """Beside the gradient of the data there is one of zeros for a tensor that gives its size."""
    return not operator.op.startswith("_backward") or operator.attributes.get("mode") != "like"


def _attributes(parts: Parts, size: Size) -> dict[str, str]:
    """Of a pass to planes of this size."""
    own = parts.whole.attributes
    kept = {name: own[name] for name in ("align_corners",) if name in own}
    return {"height": str(size[0]), "width": str(size[1]), **kept}


def _called(before: Size, after: Size, candidates: str) -> tuple[tuple[str, ...], ...]:
    """The dimensions of a pass: of the candidates, those have names that keep their size."""
    sizes = zip("ij", before, after, strict=True)
    names = ("b0", "b1", *(name if name in candidates and one == other else "" for name, one, other in sizes))
    return names, names


def _expand(parts: Parts) -> None:
    """The rows first, and in the gradient last. A copy of the model's own node makes that: MXNet infers no shapes for one made by name."""
    op, (data, *_), before, after = parts.whole.op, parts.whole.inputs, parts.shape(0)[2:], parts.output_shape(0)[2:]
    is_backward, candidates = op.startswith("_backward"), "ij"
    origin = find_origin(parts.whole) if is_backward else None
    if all(one != other for one, other in zip(before, after, strict=True)):
        candidates = "i"
        between = (before[0], after[1]) if is_backward else (after[0], before[1])
        resized = parts.inner_tensor("resized", (*parts.shape(0)[:2], *between), parts.graph_tensors[data].dtype)
        names = _called(before, between, candidates)
        parts.inner_operator("first", op, _attributes(parts, between), (data,), (resized,), origin, names)
        data, before = resized, between
    names = _called(before, after, candidates)
    parts.last_operator(op, _attributes(parts, after), (data,), origin=origin, names=names)


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


LOWERINGS = {
    RESIZE: Lowering(_expand),
    f"_backward{RESIZE}": Lowering(_expand, is_possible=_has_one_gradient),
    "UpSampling": Lowering(_expand_upsampling, is_possible=_is_bilinear),
}
