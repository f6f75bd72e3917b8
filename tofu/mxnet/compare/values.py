"""Numbers to run a model on where its user gives none, drawn by what reads each variable."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod, sqrt
from typing import Any

import numpy as np

from tofu import _mxnet
from tofu.compare.numbers import Array, Arrays
from tofu.errors import ShapeError, raise_together
from tofu.mxnet.compare.positions import find_positions
from tofu.mxnet.frontend.inference import DTYPE_NAMES, infer_arguments

# Operator -> inputs that are scales, variances, or what logarithms and roots are taken of: around 1.
AROUND_ONE = {
    **dict.fromkeys(("BatchNorm", "BatchNorm_v1"), (1, 4)),
    **dict.fromkeys(("LayerNorm", "InstanceNorm", "GroupNorm"), (1,)),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "cbrt", "rcbrt", "reciprocal", "gammaln"), (0,)),
    "elemwise_div": (1,),
    "broadcast_div": (1,),
}


def draw_values(
    symbol: Any,
    shapes: Mapping[str, tuple[int, ...]],
    dtypes: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> dict[str, Array]:
    """Name -> numbers of every argument and auxiliary state of a symbol at these shapes, in its own type; `given` as they are.

    What is read as positions (`find_positions`) is drawn between their bounds. Scales and variances lie between 0.5 and 1.5. Of the rest,
    parameters of two dimensions and more are uniform with the variance 1 / fan-in, and everything else lies between -0.5 and 0.5.
    """
    known, codes = infer_arguments(symbol, shapes, dtypes or {})
    positions = find_positions(symbol, shapes, dtypes or {})
    ones, recurrent = _find_readers(symbol)
    wrong = {name: np.shape(value) for name, value in (given or {}).items() if np.shape(value) != known[name]}
    raise_together(
        ShapeError,
        "values= has another shape than the model needs. Give shapes that fit, or other numbers:",
        [f"{name}: {shape} given, {known[name]} needed" for name, shape in wrong.items()],
    )
    generator = np.random.RandomState(seed)
    values: dict[str, Array] = {}
    for name in symbol.list_arguments() + symbol.list_auxiliary_states():
        shape, dtype = known[name], np.dtype(DTYPE_NAMES[codes[name]])
        if name in positions:
            low, high = positions[name]
            drawn = generator.randint(low, max(high, low + 1), shape).astype(np.float64)
        elif dtype.kind in "iub":
            drawn = generator.randint(0, 2, shape).astype(np.float64)
        elif name in ones:
            drawn = generator.uniform(0.5, 1.5, shape)
        else:
            bound = 0.5 if name in shapes or len(shape) < 2 else sqrt(3 / prod(shape[1:]))
            drawn = generator.uniform(-1.0, 1.0, shape) * recurrent.get(name, bound)
        # Drawn numbers are those of float32, so that runs in both types start from the same ones.
        values[name] = np.asarray(given[name] if given and name in given else drawn.astype(np.float32)).astype(dtype)
    return values


def _find_readers(symbol: Any) -> tuple[set[str], dict[str, float]]:
    """Variables to draw around 1, and the bounds of the parameters of fused recurrence, which are one vector."""
    nodes = _mxnet.nodes(symbol.handle.value)
    ones: set[str] = set()
    recurrent: dict[str, float] = {}
    for node in nodes:
        names = [nodes[source]["name"] if nodes[source]["op"] == "null" else "" for source, _ in node["inputs"]]
        ones |= {names[slot] for slot in AROUND_ONE.get(node["op"], ()) if slot < len(names)}
        if node["op"] == "RNN":
            recurrent[names[1]] = 1 / sqrt(int(node["attrs"]["state_size"]))
    return ones, recurrent


def draw_like(arrays: Arrays, seed: int) -> dict[str, Array]:
    """Numbers between -0.5 and 0.5 of the same shapes and types."""
    generator = np.random.RandomState(seed)
    return {
        name: generator.uniform(-0.5, 0.5, array.shape).astype(np.float32).astype(array.dtype)
        for name, array in arrays.items()
    }
