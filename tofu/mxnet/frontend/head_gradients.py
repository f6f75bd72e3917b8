"""Variables for the gradients of a model's outputs. Callers pass these gradients to `backward`."""

from __future__ import annotations

import re
from typing import Any

import mxnet as mx

from tofu import _mxnet
from tofu.graph import Graph, TensorKind


def name_head_gradient(output: int) -> str:
    """Return the name of the variable for an output's gradient, such as "_head_grad_2" for output 2."""
    return f"{_mxnet.HEAD_GRADIENT_PREFIX}{output}"


def find_head(name: str) -> int | None:
    """Return the output's number in a name such as "_head_grad_2", and None for other names."""
    match = re.fullmatch(rf"{_mxnet.HEAD_GRADIENT_PREFIX}(\d+)", name)
    return None if match is None else int(match[1])


def list_head_gradients(graph: Graph) -> dict[int, str]:
    """Return the name of the variable for each output's gradient. Keys are the numbers of outputs."""
    names = (tensor.name for tensor in graph.tensors if tensor.kind is TensorKind.HEAD_GRADIENT)
    return {output: name for name in names if (output := find_head(name)) is not None}


def find_repeats(symbol: Any) -> list[int]:
    """Return the numbers of outputs that repeat an earlier output: [2] if outputs 0 and 2 are the same."""
    entries = [tuple(entry) for entry in _mxnet.outputs(symbol.handle.value)]
    return [output for output, entry in enumerate(entries) if entry in entries[:output]]


def copy_repeats(symbol: Any) -> Any:
    """Replace each repeated output of a model by a copy, so that every output has its own gradient."""
    names, repeats = symbol.list_outputs(), find_repeats(symbol)
    if not repeats:
        return symbol
    outputs = [symbol[output] for output in range(len(names))]
    for output in repeats:
        outputs[output] = mx.sym.identity(outputs[output], name=f"{names[output]}/again{output}")
    return mx.sym.Group(outputs)
