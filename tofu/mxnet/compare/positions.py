"""Which inputs of a model are positions (classes, tokens, lengths), and between which bounds: by the operators that read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from tofu import _mxnet
from tofu.mxnet.frontend.inference import infer_arguments
from tofu.mxnet.frontend.symbol_text import in_plain_form

Bounds = tuple[int, int]
"""From the first to before the second."""
Shape = tuple[int, ...]
Reader = Callable[[Mapping[str, str], Sequence[Shape]], Bounds]


def _extent(of: int, default: int) -> Reader:
    """All positions along the dimension `axis` of input `of`."""
    return lambda attributes, shapes: (0, shapes[of][int(attributes.get("axis", default))])


def _lengths(attributes: Mapping[str, str], shapes: Sequence[Shape]) -> Bounds:
    return 1, shapes[0][int(attributes.get("axis", 0))] + 1


def _classes(attributes: Mapping[str, str], shapes: Sequence[Shape]) -> Bounds:
    """Of SoftmaxOutput, whose labels may be probabilities too: of as many numbers as the data."""
    data, label = shapes[0], shapes[1]
    if prod(data) == prod(label):
        return 0, 0
    if attributes.get("multi_output") in ("True", "1"):
        return 0, data[1]
    return 0, data[-1] if attributes.get("preserve_shape") in ("True", "1") else prod(data[1:])


def _cells(attributes: Mapping[str, str], shapes: Sequence[Shape]) -> Bounds:
    return 0, min(shapes[0][: shapes[1][0]])


# Operator -> input -> bounds of what it may hold.
POSITIONS: dict[str, dict[int, Reader]] = {
    "Embedding": {0: lambda attributes, shapes: (0, int(attributes["input_dim"]))},
    "take": {1: _extent(0, 0)},
    "pick": {1: _extent(0, -1)},
    "batch_take": {1: lambda attributes, shapes: (0, shapes[0][1])},
    "one_hot": {0: lambda attributes, shapes: (0, int(attributes["depth"]))},
    "gather_nd": {1: _cells},
    "SoftmaxOutput": {1: _classes},
    "SVMOutput": {1: lambda attributes, shapes: (0, shapes[0][1])},
    "softmax_cross_entropy": {1: lambda attributes, shapes: (0, shapes[0][1])},
    "LogisticRegressionOutput": {1: lambda attributes, shapes: (0, 2)},
    "CTCLoss": {1: lambda attributes, shapes: (1, shapes[0][2])},
    "SequenceLast": {1: _lengths},
    "SequenceMask": {1: _lengths},
    "SequenceReverse": {1: _lengths},
    "softmax": {1: lambda attributes, shapes: (1, shapes[0][int(attributes.get("axis", -1))] + 1)},
    "where": {0: lambda attributes, shapes: (0, 2)},
    "_ctc_loss": {1: lambda attributes, shapes: (1, shapes[0][2])},
}
# What hands the numbers of its inputs on as they are.
MOVING = frozenset(
    (
        *(
            "Reshape",
            "Flatten",
            "transpose",
            "expand_dims",
            "squeeze",
            "SwapAxis",
            "reshape_like",
            "reverse",
            "Cast",
            "_copy",
        ),
        *(
            "SliceChannel",
            "_split_v2",
            "slice",
            "slice_axis",
            "slice_like",
            "BlockGrad",
            "Concat",
            "stack",
            "tile",
            "repeat",
        ),
        *("broadcast_to", "broadcast_axis", "broadcast_like"),
    )
)


def find_positions(symbol: Any, shapes: Mapping[str, Shape], dtypes: Mapping[str, Any]) -> dict[str, Bounds]:
    """Argument -> the bounds within which all that read it find a position; arguments that nothing reads as positions are left out."""
    symbol = in_plain_form(symbol)
    known, codes = infer_arguments(symbol, shapes, dtypes)
    nodes = _mxnet.nodes(symbol.handle.value)
    variables = {node["name"] for node in nodes if node["op"] == "null"}
    entry_shapes, _ = _mxnet.infer(
        symbol.handle.value,
        {name: shape for name, shape in known.items() if name in variables},
        {name: code for name, code in codes.items() if name in variables},
    )
    found: dict[str, Bounds] = {}
    for node in nodes:
        inputs = [entry_shapes[nodes[source]["entry"] + index] or () for source, index in node["inputs"]]
        for slot, read in POSITIONS.get(node["op"], {}).items():
            if slot >= len(inputs):
                continue
            low, high = read(node["attrs"], inputs)
            for name in _sources(nodes, node["inputs"][slot][0]) if high > low else ():
                before = found.get(name, (low, high))
                found[name] = max(low, before[0]), min(high, before[1])
    return found


def _sources(nodes: Sequence[Mapping[str, Any]], start: int) -> list[str]:
    """The variables whose numbers a node hands on."""
    names, stack = [], [start]
    while stack:
        node = nodes[stack.pop()]
        if node["op"] == "null":
            names.append(node["name"])
        elif node["op"] in MOVING:
            stack += [source for source, _ in node["inputs"]]
    return names
