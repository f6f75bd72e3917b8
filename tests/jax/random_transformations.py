"""Compare transformations of partitioned functions with the same transformations on one device.

\b
    python -m tests.jax.random_transformations --count 500 --seed 7

The functions are the cases of the verification, which contain all primitives. A seed draws a function, a transformation
and options. The exit status is 1 for a wrong number or an error that is not Tofu's.
"""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import click

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import tofu.jax  # isort: skip  (it gives XLA enough threads)
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.jax.comparison import assert_close
from tofu.errors import TofuError
from tofu.jax.frontend.versions import in_double_precision
from tofu.jax.verify.campaign import load_cases

FACTORS = np.array([1.0, 0.7, -0.3])


def is_float(x):
    return jnp.issubdtype(jnp.result_type(x), jnp.floating)


def weigh(tree):
    floats = [jnp.asarray(x, "float64") for x in jax.tree.leaves(tree) if is_float(x)]
    return sum(jnp.sum(jnp.sin(x) * np.cos(1 + np.arange(x.size)).reshape(x.shape)) for x in floats)


def scale(tree, factor):
    return jax.tree.map(lambda x: jnp.asarray(x * factor, jnp.result_type(x)) if is_float(x) else x, tree)


def make_loss(f):
    return lambda *a: weigh(f(*a))


def differentiate(f, at):
    return jax.grad(make_loss(f), at)


def fix_others(f, args, at):
    return lambda *some: f(*(some[at.index(n)] if n in at else a for n, a in enumerate(args)))


def make_cotangent(x):
    return jnp.cos(jnp.asarray(x)) if is_float(x) else np.zeros(np.shape(x), jax.dtypes.float0)


def pull_back(f, args, at):
    results, back = jax.vjp(fix_others(f, args, at), *(args[n] for n in at))
    return results, back(jax.tree.map(make_cotangent, results))


def push_forward(f, args, at):
    some = tuple(args[n] for n in at)
    return jax.jvp(fix_others(f, args, at), some, jax.tree.map(make_cotangent, some))


def differentiate_scan(f, args, at):
    def loss(*a):
        return lax.scan(lambda total, factor: (total + weigh(f(*scale(a, factor))), factor), 0.0, FACTORS)[0]

    return jax.grad(loss, at)(*args)


def map_over(outer, inner):

    def run(f, args, at):
        batches = [np.stack([np.asarray(scale(a, x)) for x in FACTORS]) if n in at else a for n, a in enumerate(args)]
        axes = tuple(0 if n in at else None for n in range(len(args)))
        return outer(jax.vmap(inner(f, at), in_axes=axes), at)(*batches)

    return run


def call_in_rules(f, args, at):
    """Differentiate a `jax.custom_vjp` function whose rules call the step and its gradient."""
    every, value = tuple(range(len(at))), fix_others(make_loss(f), args, at)
    loss = jax.custom_vjp(value)
    loss.defvjp(lambda *a: (loss(*a), a), lambda a, g: scale(jax.grad(value, every)(*a), 2 * g))
    return jax.grad(loss, every)(*(args[n] for n in at))


def keep(f, at):
    return f


TRANSFORMATIONS = {
    "call": lambda f, args, at: f(*args),
    "jit": lambda f, args, at: jax.jit(lambda *a: f(*scale(a, 0.7)))(*args),
    "grad": lambda f, args, at: differentiate(f, at)(*args),
    "vjp": pull_back,
    "jacrev": lambda f, args, at: jax.jacrev(lambda *a: weigh(f(*a)) * FACTORS[:2], at)(*args),
    "jit(grad)": lambda f, args, at: jax.jit(differentiate(f, at))(*args),
    "checkpoint": lambda f, args, at: differentiate(jax.checkpoint(f), at)(*args),
    "several calls": lambda f, args, at: differentiate(lambda *a: [f(*a), f(*scale(a, 0.5))], at)(*args),
    "custom_vjp": call_in_rules,
    "grad(grad)": lambda f, args, at: jax.grad(lambda *a: weigh(differentiate(f, at)(*a)), at)(*args),
    "vmap": map_over(keep, keep),
    "vmap(grad)": map_over(keep, differentiate),
    "jit(vmap(grad))": map_over(lambda f, at: jax.jit(f), differentiate),
    "grad(vmap)": map_over(differentiate, keep),
    "scan": differentiate_scan,
    "map": lambda f, args, at: differentiate(lambda *a: lax.map(lambda s: f(*scale(a, s)), FACTORS), at)(*args),
    "cond": lambda f, args, at: jax.grad(lambda *a: lax.cond(weigh(a) < 1e9, make_loss(f), lambda *a: 0.0, *a), at)(
        *args
    ),
    "jvp": push_forward,
}


@dataclass(frozen=True)
class TransformationCase:
    name: str
    transformation: str
    workers: int
    options: dict[str, Any]
    is_placed: bool


def draw_case(seed):
    r, options = random.Random(seed), {}
    if r.random() < 0.6:
        options["uneven"] = r.choice(["free", "free", "needed", "none"])
    if r.random() < 0.25:
        options["replicate"] = "free"
    if r.random() < 0.2:
        options["donate_argnums"] = 0
    if r.random() < 0.1:
        options["memory_limit"] = r.choice(["1GiB", "1MB"])
    names = sorted(load_cases().keys() - {"any reduction"})  # JAX's derivative assumes that its first value is neutral
    name, transformation = r.choice(names), r.choice(list(TRANSFORMATIONS))
    return TransformationCase(name, transformation, r.choice([2, 3, 4, 8]), options, r.random() < 0.4)


def run_case(case):
    with in_double_precision(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX reports donated buffers that it cannot use
        function, args = load_cases()[case.name].function, tuple(load_cases()[case.name].draw_inputs())
        at = tuple(n for n, x in enumerate(args) if is_float(x))
        transform = TRANSFORMATIONS[case.transformation]
        try:
            expected = transform(jax.jit(function), args, at)
        except Exception as error:
            return "refused by JAX", f"{type(error).__name__}: {error}"[:300]
        try:
            made = tofu.jax.partition(function, case.workers, args, **case.options)
            is_stacked = "vmap" in case.transformation
            given = tuple(made.place(x, n) if case.is_placed and not is_stacked else x for n, x in enumerate(args))
            found = transform(made, given, at)
        except TofuError as error:
            is_expected = case.transformation == "jvp" and "forward-mode" in str(error)
            return ("same", "") if is_expected else ("refused", f"{type(error).__name__}: {error}")
        except Exception as error:
            return "raw error", f"{type(error).__name__}: {error}"[:1500]
        if case.transformation == "jvp":
            return "wrong", "jax.jvp was not refused"
        try:
            assert jax.tree.structure(found) == jax.tree.structure(expected)
            assert_close(found, expected, 1e-6, 1e-6)
        except AssertionError as error:
            return "wrong", str(error)
    return "same", ""


@click.command(help=__doc__)
@click.option("--count", default=60, show_default=True, help="How many cases.")
@click.option("--seed", default=0, show_default=True, help="The seed of the first case.")
def main(count: int, seed: int) -> None:
    counts: Counter[str] = Counter()
    for case in map(draw_case, range(seed, seed + count)):
        status, text = run_case(case)
        counts[status] += 1
        if status not in ("same", "refused by JAX"):
            print(status, case, text, sep="\n", end="\n\n", flush=True)
    print(dict(counts))
    sys.exit(bool(counts["wrong"] + counts["raw error"]))


if __name__ == "__main__":
    main()
