"""SpatialTransformer split by rows: the places that are read come from its own kernel, and BilinearSampler reads its part of them.

Where a coordinate falls between two cells a rounding decides which slope its gradient has, so the places have to be the same to the last
bit. That kernel has them of data of one cell, too. The gradient's kernel takes all that it needs from what it is given.
"""

from __future__ import annotations

from tofu.lowering.parts import Lowering, Parts
from tofu.mxnet.frontend.origin import find_origin

IMAGE, GRID = ("b", "c", "y", "x"), ("b", "", "y", "x")
WHOLE = ("b", "", "", "")  # of an image, what is not split in space


def _expand(parts: Parts) -> None:
    whole, dtype = parts.whole, parts.graph_tensors[parts.whole.inputs[0]].dtype
    data, loc = whole.inputs
    sampled, cells, source = whole.outputs
    batch, _, height, width = parts.output_shape(0)
    one, shape = (batch, 1, 1, 1), (batch, 2, height, width)
    nothing = parts.inner_tensor("nothing", one, dtype)
    parts.inner_operator("zeros", "_zeros", {"shape": str(one), "dtype": dtype}, (), (nothing,), names=(WHOLE,))
    unused = parts.inner_tensor("unused", (batch, 1, height, width), dtype)
    written = unused, cells, source
    names = WHOLE, ("b", ""), WHOLE, ("", ""), ("b", "", "")
    # A copy of the model's node, whose state the gradient's kernel asks for.
    parts.inner_operator("places", whole.op, whole.attributes, (nothing, loc), written, find_origin(whole), names)
    grid = parts.inner_tensor("grid", shape, dtype)
    shaped = ("b", "", ""), GRID
    parts.inner_operator("shaped", "Reshape", {"shape": str(shape)}, (source,), (grid,), names=shaped)
    scratch = parts.inner_tensor("scratch", (batch, height, width, 2), dtype)
    called = ("b", "c", "", ""), GRID, IMAGE, ("b", "y", "x", "")
    parts.last_operator("BilinearSampler", {}, (data, grid), outputs=(sampled, scratch), names=called)


LOWERINGS = {"SpatialTransformer": Lowering(_expand)}
