"""Gradients of a symbol's outputs, which callers give between forward and backward: what the training graph calls their variables."""

from __future__ import annotations

import re

from tofu import _mxnet
from tofu.graph import Graph, TensorKind


def name_head_gradient(output: int) -> str:
    """The variable that is the gradient of a symbol's output."""
    return f"{_mxnet.HEAD_GRADIENT_PREFIX}{output}"


def find_head(name: str) -> int | None:
    """The output whose gradient a variable of this name is; None for other names."""
    found = re.fullmatch(rf"{_mxnet.HEAD_GRADIENT_PREFIX}(\d+)", name)
    return None if found is None else int(found[1])


def list_head_gradients(graph: Graph) -> dict[int, str]:
    """The gradients that a graph is given: by output, the name of the variable."""
    names = (tensor.name for tensor in graph.tensors if tensor.kind is TensorKind.HEAD_GRADIENT)
    return {output: name for name in names if (output := find_head(name)) is not None}
