"""Random steps: functions of trees of arrays, composed of random operations.

A step is a seed and the numbers of its operations. Each operation has its own seed, so leaving one out keeps the others.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.jax.random_steps.operations import OPERATIONS, SIZES, Scope, apply, fit, spread


def find_kind(x):
    """Return "float", "integer", "flag" or "key"."""
    dtype = jnp.result_type(x)
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return "key"
    return "float" if jnp.issubdtype(dtype, jnp.floating) else "flag" if dtype == np.bool_ else "integer"


@dataclass(frozen=True, eq=False)
class RandomStep:
    """Step with NumPy arguments; `style` is the form of its results, `x64` its precision."""

    seed: int
    operations: tuple[int, ...]
    arguments: tuple[Any, ...]
    style: str
    x64: bool

    def __call__(self, *arguments):
        leaves: dict[str, list[Any]] = {"float": [], "integer": [], "flag": [], "key": []}
        for x in jax.tree.leaves(arguments):
            leaves[find_kind(x)].append(jnp.asarray(x))
        inputs = leaves["float"]
        values, scope = list(inputs), Scope(leaves["integer"], leaves["flag"], leaves["key"])
        for n in self.operations:
            r = random.Random(f"{self.seed}/{n}")
            x, y = r.choice(values[-3:] + inputs), r.choice(values[-3:] + inputs)
            values.append(apply(r.choice(list(OPERATIONS)), r.random(), x, y, scope))
        return self._results(arguments, values[-2:], inputs)

    def _results(self, arguments, last, inputs):
        wide = [jnp.sin(x + 0.1).astype(jnp.promote_types(x.dtype, "float32")) for x in last + inputs]
        loss = sum(jnp.sum(x) for x in wide)
        if self.style == "scalar":
            return loss
        if self.style == "state":
            return jax.tree.map(lambda a: advance(a, last[-1]), arguments[0]), loss
        r, extra = random.Random(self.seed), {"value": last[0], "index": jnp.argmax(spread(last[-1])), "loss": loss}
        extra["same"] = arguments[-1]
        return (last[-1], [{name: extra[name] for name in r.sample(sorted(extra), r.randint(1, 4))}])


def advance(a, z):
    """Return the next state of an array, which depends on z if the array has a derivative."""
    if find_kind(a) == "float":
        return (0.9 * a - 0.2 * fit(z, a.shape)).astype(a.dtype)
    return a + 1 if find_kind(a) == "integer" else a


def make_step(seed, operations=None):
    """Return the step of a seed, with all or some of its operations."""
    r, values = random.Random(seed), np.random.default_rng(seed)
    x64, sizes = r.random() < 0.75, r.choices(SIZES, k=3)
    half = not x64 and r.random() < 0.5

    def array(ranks=(0, 1, 1, 2, 2, 2, 3)):
        shape = tuple(r.choice(sizes) for _ in range(r.choice(ranks)))
        if r.random() < 0.06:  # more than 64 KiB
            shape = (r.choice([3, 7]), r.choice([40, 37]), 80)
        dtype = "float64" if x64 and r.random() < 0.95 else r.choice(["bfloat16", "float16"]) if half else "float32"
        return np.asarray(values.normal(size=shape)).astype(jnp.dtype(dtype))

    makers = {
        "many": lambda: array((1, 2, 2, 3)),
        "array": array,
        "dict": lambda: {"w": array((1, 2)), "b": array()},
        "tuple": lambda: (array(), [array()], np.int32(r.randint(0, 3))),
        "integer": lambda: r.choice([np.int32, int])(r.randint(0, 4)),
        "flag": lambda: np.bool_(r.random() < 0.5),
        "key": lambda: jax.random.key(r.randint(0, 99)),
        "number": lambda: r.uniform(-1, 1),
        "positions": lambda: values.integers(0, 5, size=r.randint(1, 9)).astype("int32"),
    }
    first, others = ["many"] * 5 + ["dict"], ["array"] * 4 + list(makers)
    arguments = tuple(makers[r.choice(others if n else first)]() for n in range(r.randint(1, 4)))
    style = r.choice(["state", "state", "tree", "scalar"])
    operations = tuple(range(r.randint(2, 5))) if operations is None else tuple(operations)
    return RandomStep(seed, operations, arguments, style, x64)
