"""Compare transformations of random partitioned steps with the same transformations on one device.

    python -m tests.jax.random_steps.campaign --functions 500 --seed 7

Compares numbers, types and trees. The exit status is 1 for a wrong number or an error that is not Tofu's.
"""

from __future__ import annotations

import os
import random
import sys
import traceback
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

from tests.jax.random_steps.steps import find_kind, make_step
from tests.jax.random_steps.transformations import TRANSFORMATIONS, Step, floats
from tofu.errors import TofuError
from tofu.jax.frontend.versions import in_double_precision, in_precision

BATCHING = {"vmap", "vmap at 1", "vmap(vmap)", "vmap(grad)", "grad(vmap)", "jit(vmap(grad))", "jacrev(jacrev)"}
SIGNATURES = (
    lambda f: lambda a: f(a),
    lambda f: lambda a, b: f(a, b),
    lambda f: lambda a, b, c: f(a, b, c),
    lambda f: lambda a, b, c, d: f(a, b, c, d),
)


@dataclass(frozen=True)
class Case:
    """Random step, its transformation, and its partition options; `forms` lists how each argument is passed."""

    seed: int
    transformation: str
    workers: int
    options: tuple[tuple[str, Any], ...]
    forms: tuple[str, ...]
    deferred: bool
    operations: tuple[int, ...]


def make_case(seed):
    step, r = make_step(seed), random.Random(f"case {seed}")
    workers, options = r.choice([2, 3, 4, 8]), {}
    if r.random() < 0.6:
        options["uneven"] = r.choice(["free", "free", "free", "needed", "none"])
    if r.random() < 0.25:
        options["replicate"] = "free"
    if r.random() < 0.15:
        options["donate_argnums"] = r.choice([0, (0,)])
    if r.random() < 0.1:
        options["memory_limit"] = r.choice(["1GiB", "1MB"])
    arrays = [(n, x.shape) for n, x in enumerate(step.arguments) if isinstance(x, np.ndarray)]
    even = [("abcd"[n], d) for n, shape in arrays for d, size in enumerate(shape) if size % workers == 0]
    if even and r.random() < 0.3:
        options["hints"] = dict([r.choice(even)])
    forms = tuple(r.choice(["as made", "as made", "jax", "placed", "placed"]) for _ in step.arguments)
    name = r.choice(list(TRANSFORMATIONS))
    return Case(seed, name, workers, tuple(options.items()), forms, r.random() < 0.1, step.operations)


def widen(tree):
    def wide(x):
        return x.astype("float64") if isinstance(x, np.ndarray) and find_kind(x) == "float" else x

    return jax.tree.map(wide, tree)


def read_leaves(tree):
    def keys(x):
        return jnp.issubdtype(jnp.result_type(x), jax.dtypes.prng_key)

    leaves, treedef = jax.tree.flatten(tree)
    return [np.asarray(jax.random.key_data(x) if keys(x) else x) for x in leaves], treedef


def find_difference(found, expected, exact, precision):
    """Return a text about the first difference, or an empty text.

    `found` may differ from `exact`, the results in double precision, ten times as far as `expected` does, and by a relative `precision`.
    """
    (found, tree), (expected, expected_tree), (exact, _) = read_leaves(found), read_leaves(expected), read_leaves(exact)
    if tree != expected_tree:
        return f"tree {tree}, expected {expected_tree}"
    for n, (x, y, z) in enumerate(zip(found, expected, exact, strict=True)):
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"leaf {n}: {x.dtype}{x.shape}, expected {y.dtype}{y.shape}"
        if y.dtype == jax.dtypes.float0:
            continue
        if find_kind(y) != "float":
            wrong = x != y
        else:
            x, y, z = (v.astype("float64") for v in (x, y, z))
            allowed = precision * (np.abs(z) + 0.1 * np.max(np.abs(z), initial=0) + 1e-3)
            wrong = ~(np.abs(x - z) <= allowed + 10 * np.max(np.abs(y - z), initial=0))
        if wrong.any():
            at = tuple(map(int, np.argwhere(wrong)[0]))
            return f"leaf {n}: {wrong.sum()} of {wrong.size} differ, at {at} {x[at]:.17g}, expected {y[at]:.17g}"
    return ""


def make_arguments(made, case, args):
    """Return arguments in their forms; vmap and Hessians stack them, and get them as they were made."""
    if case.transformation in BATCHING:
        return args
    forms = {
        "as made": lambda n, a: a,
        "jax": lambda n, a: jax.tree.map(jnp.asarray, a),
        "placed": lambda n, a: made.place(a, n),
    }
    return tuple(forms[form](n, a) for n, (form, a) in enumerate(zip(case.forms, args, strict=True)))


def run_case(case, x64=None):
    """Return a status and an explanation; `x64` overrides the precision of the case."""
    step, transform = make_step(case.seed, case.operations), TRANSFORMATIONS[case.transformation]
    smooth = [n for n, a in enumerate(step.arguments) if all(find_kind(x) == "float" for x in jax.tree.leaves(a))]
    r, function = random.Random(f"positions {case.seed}"), SIGNATURES[len(step.arguments) - 1](step)
    at = tuple(sorted(r.sample(smooth, r.randint(1, len(smooth)))))
    x64, args = (step.x64, step.arguments) if x64 is None else (x64, widen(step.arguments))
    forward = case.transformation == "jvp"
    single = any(x.dtype != "float64" for x in read_leaves(args)[0] if find_kind(x) == "float")

    def transform_plain(args):
        return None if forward else transform(Step(jax.jit(function), step.style), args, at)

    try:
        with in_double_precision():
            exact = transform_plain(widen(args))
        with in_precision(x64):
            expected = transform_plain(args) if single or not x64 else exact
    except Exception as error:
        return "refused by JAX", f"{type(error).__name__}: {error}"[:300]
    with in_precision(x64):
        if not all(np.isfinite(np.asarray(x, "float64")).all() for x in floats(expected)):
            return "not finite", ""
        made = None
        try:
            planned_for = [] if case.deferred else [args]
            made = tofu.jax.partition(function, case.workers, *planned_for, **dict(case.options))
            if case.deferred and "placed" in case.forms:
                made.planned(*args)
            found = transform(Step(made, step.style), make_arguments(made, case, args), at)
        except TofuError as error:
            if forward and "forward-mode" in str(error):
                return "same", ""
            return "refused" if made else "not partitioned", f"{type(error).__name__}: {error}"
        except Exception as error:
            where = "".join(traceback.format_tb(error.__traceback__)[-6:])
            return "raw error", f"{type(error).__name__}: {error}"[:1500] + "\n" + where
        if forward:
            return "wrong", "jax.jvp was not refused"
        text = find_difference(found, expected, exact, 2e-4 if single else 1e-9)
    return ("wrong" if text else "same"), text


@click.command(help=__doc__)
@click.option("--functions", default=60, show_default=True, help="How many random steps.")
@click.option("--seed", default=0, show_default=True, help="The seed of the first step.")
def main(functions: int, seed: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(seed, seed + functions):
        case = make_case(number)
        status, text = run_case(case)
        if status == "wrong" and run_case(case, x64=True)[0] == "same":
            status = "imprecise"
        counts[status] += 1
        if status not in ("same", "not finite"):
            print(status, case, text, sep="\n", end="\n\n", flush=True)
    print(dict(counts))
    sys.exit(bool(counts["wrong"] + counts["raw error"]))


if __name__ == "__main__":
    main()
