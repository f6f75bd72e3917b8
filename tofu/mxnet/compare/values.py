"""Draw random values for a model's variables, in ranges that suit the operators that read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from tdl_ops.mxnet.attributes import is_true
from tofu import _mxnet
from tofu.compare.numbers import Array, Arrays
from tofu.errors import ShapeError, raise_together
from tofu.mxnet.frontend.inference import DTYPE_NAMES, infer_arguments, infer_entries
from tofu.mxnet.frontend.symbol_text import in_plain_form

Bounds = tuple[int, int]
"""The smallest allowed position, and the first position that is too large."""
Shape = tuple[int, ...]
FindBounds = Callable[[Mapping[str, str], Sequence[Shape]], Bounds]
"""Function that takes an operator's attributes and the shapes of its inputs, and returns the `Bounds` of an input."""


def _bound_by_extent(slot: int, default_axis: int) -> FindBounds:
    return lambda attributes, shapes: (0, shapes[slot][int(attributes.get("axis", default_axis))])


def _find_length_bounds(attributes: Mapping[str, str], shapes: Sequence[Shape]) -> Bounds:
    return 1, shapes[0][int(attributes.get("axis", 0))] + 1


def _find_class_bounds(attributes: Mapping[str, str], shapes: Sequence[Shape]) -> Bounds:
    data, label = shapes[0], shapes[1]
    if prod(data) == prod(label):  # the labels may be probabilities
        return 0, 0
    if is_true(attributes, "multi_output"):
        return 0, data[1]
    return 0, data[-1] if is_true(attributes, "preserve_shape") else prod(data[1:])


def _find_gather_bounds(attributes: Mapping[str, str], shapes: Sequence[Shape]) -> Bounds:
    return 0, min(shapes[0][: shapes[1][0]])


POSITIONS: dict[str, dict[int, FindBounds]] = {
    "Embedding": {0: lambda attributes, shapes: (0, int(attributes["input_dim"]))},
    "take": {1: _bound_by_extent(0, 0)},
    "pick": {1: _bound_by_extent(0, -1)},
    "batch_take": {1: lambda attributes, shapes: (0, shapes[0][1])},
    "one_hot": {0: lambda attributes, shapes: (0, int(attributes["depth"]))},
    "gather_nd": {1: _find_gather_bounds},
    "SoftmaxOutput": {1: _find_class_bounds},
    "SVMOutput": {1: lambda attributes, shapes: (0, shapes[0][1])},
    "softmax_cross_entropy": {1: lambda attributes, shapes: (0, shapes[0][1])},
    "LogisticRegressionOutput": {1: lambda attributes, shapes: (0, 2)},
    "CTCLoss": {1: lambda attributes, shapes: (1, shapes[0][2])},
    "SequenceLast": {1: _find_length_bounds},
    "SequenceMask": {1: _find_length_bounds},
    "SequenceReverse": {1: _find_length_bounds},
    "softmax": {1: lambda attributes, shapes: (1, shapes[0][int(attributes.get("axis", -1))] + 1)},
    "where": {0: lambda attributes, shapes: (0, 2)},
    "_ctc_loss": {1: lambda attributes, shapes: (1, shapes[0][2])},
}
"""For each operator, the inputs that contain indices, labels or lengths, with the range of values."""
MOVING_OPERATORS = frozenset(
    (
        *("Reshape", "Flatten", "transpose", "expand_dims", "squeeze", "SwapAxis", "reshape_like", "reverse"),
        *("Cast", "_copy", "BlockGrad", "SliceChannel", "_split_v2", "slice", "slice_axis", "slice_like"),
        *("Concat", "stack", "tile", "repeat", "broadcast_to", "broadcast_axis", "broadcast_like"),
    )
)
"""Operators that rearrange or copy their input's numbers without changing them."""


def find_positions(symbol: Any, shapes: Mapping[str, Shape], dtypes: Mapping[str, Any]) -> dict[str, Bounds]:
    """Return the allowed range of each argument that contains indices, labels or lengths."""
    symbol = in_plain_form(symbol)
    all_shapes, type_flags = infer_arguments(symbol, shapes, dtypes)
    nodes = _mxnet.nodes(symbol.handle.value)
    entry_shapes, _ = infer_entries(symbol, all_shapes, type_flags)
    bounds: dict[str, Bounds] = {}
    for node in nodes:
        inputs = [entry_shapes[nodes[source]["entry"] + index] or () for source, index in node["inputs"]]
        for slot, find_bounds in POSITIONS.get(node["op"], {}).items():
            if slot >= len(inputs):
                continue
            low, high = find_bounds(node["attrs"], inputs)
            for name in _list_sources(nodes, node["inputs"][slot][0]) if high > low else ():
                earlier_low, earlier_high = bounds.get(name, (low, high))
                bounds[name] = max(low, earlier_low), min(high, earlier_high)
    return bounds


def _list_sources(nodes: Sequence[Mapping[str, Any]], number: int) -> list[str]:
    names, unvisited = [], [number]
    while unvisited:
        node = nodes[unvisited.pop()]
        if node["op"] == "null":
            names.append(node["name"])
        elif node["op"] in MOVING_OPERATORS:
            unvisited += [source for source, _ in node["inputs"]]
    return names


INPUTS_AROUND_ONE = {
    **dict.fromkeys(("BatchNorm", "BatchNorm_v1"), (1, 4)),
    **dict.fromkeys(("LayerNorm", "InstanceNorm", "GroupNorm"), (1,)),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "cbrt", "rcbrt", "reciprocal", "gammaln"), (0,)),
    "elemwise_div": (1,),
    "broadcast_div": (1,),
}
"""For each operator, the inputs that are drawn around 1: scales, variances, divisors, arguments of logarithms."""


def draw_values(
    symbol: Any,
    shapes: Mapping[str, tuple[int, ...]],
    dtypes: Mapping[str, Any] | None = None,
    user_values: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> dict[str, Array]:
    """Return an array for every argument and auxiliary state (such as a moving mean) of a model, by name.

    `user_values` has arrays to use. All other arrays are random:

    - indices, labels and lengths in the allowed range,
    - scales and variances from 0.5 to 1.5,
    - weight matrices uniform, with variance 1 / (number of inputs of a unit),
    - other numbers from -0.5 to 0.5.
    """
    user_values = user_values or {}
    all_shapes, type_flags = infer_arguments(symbol, shapes, dtypes or {})
    positions = find_positions(symbol, shapes, dtypes or {})
    around_one, recurrent_bounds = _find_ranges(symbol)
    problems = [
        f"{name}: {np.shape(value)} passed, {all_shapes[name]} needed"
        for name, value in user_values.items()
        if np.shape(value) != all_shapes[name]
    ]
    raise_together(
        ShapeError, "values= has other shapes than the model needs. Pass matching shapes= or other numbers:", problems
    )
    generator = np.random.RandomState(seed)
    values: dict[str, Array] = {}
    for name in symbol.list_arguments() + symbol.list_auxiliary_states():
        shape, dtype = all_shapes[name], np.dtype(DTYPE_NAMES[type_flags[name]])
        if name in positions:
            low, high = positions[name]
            drawn = generator.randint(low, max(high, low + 1), shape).astype(np.float64)
        elif dtype.kind in "iub":
            drawn = generator.randint(0, 2, shape).astype(np.float64)
        elif name in around_one:
            drawn = generator.uniform(0.5, 1.5, shape)
        else:
            bound = 0.5 if name in shapes or len(shape) < 2 else sqrt(3 / prod(shape[1:]))
            drawn = generator.uniform(-1.0, 1.0, shape) * recurrent_bounds.get(name, bound)
        # Runs in float32 and float64 start from the same numbers, because drawn numbers are rounded to float32.
        values[name] = np.asarray(user_values.get(name, drawn.astype(np.float32))).astype(dtype)
    return values


def _find_ranges(symbol: Any) -> tuple[set[str], dict[str, float]]:
    nodes = _mxnet.nodes(symbol.handle.value)
    around_one: set[str] = set()
    recurrent_bounds: dict[str, float] = {}
    for node in nodes:
        names = [nodes[source]["name"] if nodes[source]["op"] == "null" else "" for source, _ in node["inputs"]]
        around_one |= {names[slot] for slot in INPUTS_AROUND_ONE.get(node["op"], ()) if slot < len(names)}
        if node["op"] == "RNN":
            recurrent_bounds[names[1]] = 1 / sqrt(int(node["attrs"]["state_size"]))
    return around_one, recurrent_bounds


def draw_like(arrays: Arrays, seed: int) -> dict[str, Array]:
    """Return random arrays with the shapes and types of `arrays`. Numbers are between -0.5 and 0.5."""
    generator = np.random.RandomState(seed)
    return {
        name: generator.uniform(-0.5, 0.5, array.shape).astype(np.float32).astype(array.dtype)
        for name, array in arrays.items()
    }
