"""Compare transformations of random partitioned steps with those of the steps themselves: numbers, types and trees.

    python -m tests.jax.differentiated.campaign --functions 500 --seed 7

Steps run in child processes, each with a time limit. A failure is shrunk: operations and options are left out while it
fails alike.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import queue
import random
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass, replace
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import tofu.jax  # isort: skip  (it gives XLA enough threads)
import jax
import jax.numpy as jnp
import numpy as np

from tests.jax.differentiated.steps import kind_of, make_step
from tests.jax.differentiated.transformations import TRANSFORMATIONS, Step, floats
from tofu.errors import TofuError
from tofu.jax.frontend.versions import in_double_precision, in_precision

CHUNK = 25  # steps of a child process
BATCHING = {"vmap", "vmap at 1", "vmap(vmap)", "vmap(grad)", "grad(vmap)", "jit(vmap(grad))", "jacrev(jacrev)"}
SIGNATURES = (
    lambda f: lambda a: f(a),
    lambda f: lambda a, b: f(a, b),
    lambda f: lambda a, b, c: f(a, b, c),
    lambda f: lambda a, b, c, d: f(a, b, c, d),
)


@dataclass(frozen=True)
class Case:
    """A random step, its transformation, and how it is partitioned; `forms` says what each argument is passed as."""

    seed: int
    transformation: str
    workers: int
    options: tuple[tuple[str, Any], ...]
    forms: tuple[str, ...]
    deferred: bool
    operations: tuple[int, ...]


def make_case(seed):
    """Return the case of a seed."""
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
    """Return a tree with floating-point arrays in double precision."""

    def wide(x):
        return x.astype("float64") if isinstance(x, np.ndarray) and kind_of(x) == "float" else x

    return jax.tree.map(wide, tree)


def read(tree):
    def keys(x):
        return jnp.issubdtype(jnp.result_type(x), jax.dtypes.prng_key)

    leaves, treedef = jax.tree.flatten(tree)
    return [np.asarray(jax.random.key_data(x) if keys(x) else x) for x in leaves], treedef


def find_difference(found, expected, exact, precision):
    """Return what differs, or an empty text.

    Args:
        found: Results of the partitioned step.
        expected: Those of the step on one device.
        exact: Those of the step on one device in double precision. `found` may be off ten times as far as `expected`.
        precision: Relative difference that is allowed besides.
    """
    (found, tree), (expected, expected_tree), (exact, _) = read(found), read(expected), read(exact)
    if tree != expected_tree:
        return f"tree {tree}, expected {expected_tree}"
    for n, (x, y, z) in enumerate(zip(found, expected, exact, strict=True)):
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"leaf {n}: {x.dtype}{x.shape}, expected {y.dtype}{y.shape}"
        if y.dtype == jax.dtypes.float0:
            continue
        if kind_of(y) != "float":
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
    """Return arguments in their forms; `jax.vmap` and Hessians get them as they are made, since they stack them."""
    if case.transformation in BATCHING:
        return args
    forms = {
        "as made": lambda n, a: a,
        "jax": lambda n, a: jax.tree.map(jnp.asarray, a),
        "placed": lambda n, a: made.place(a, n),
    }
    return tuple(forms[form](n, a) for n, (form, a) in enumerate(zip(case.forms, args, strict=True)))


def run_case(case, x64=None):
    """Return a status and a text that says more.

    Args:
        case: The case.
        x64: Whether to run it with 64-bit types; by default as the case has it.
    """
    step, transform = make_step(case.seed, case.operations), TRANSFORMATIONS[case.transformation]
    smooth = [n for n, a in enumerate(step.arguments) if all(kind_of(x) == "float" for x in jax.tree.leaves(a))]
    r, function = random.Random(f"positions {case.seed}"), SIGNATURES[len(step.arguments) - 1](step)
    at = tuple(sorted(r.sample(smooth, r.randint(1, len(smooth)))))
    x64, args = (step.x64, step.arguments) if x64 is None else (x64, widen(step.arguments))
    forward = case.transformation == "jvp"
    single = any(x.dtype != "float64" for x in read(args)[0] if kind_of(x) == "float")

    def transform_plain(args):
        return None if forward else transform(Step(jax.jit(function), step.style), args, at)

    with in_double_precision():
        exact = transform_plain(widen(args))
    with in_precision(x64):
        expected = transform_plain(args) if single or not x64 else exact
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


def shrink(case, status, seconds=60):
    """Leave out operations, options and forms while the status stays, for some seconds."""
    until = time.monotonic() + seconds
    fewer = [replace(case, operations=tuple(m for m in case.operations if m != n)) for n in case.operations]
    fewer += [replace(case, options=tuple(o for o in case.options if o != option)) for option in case.options]
    fewer += [replace(case, forms=("as made",) * len(case.forms))] if set(case.forms) != {"as made"} else []
    for smaller in fewer:
        try:
            if time.monotonic() < until and run_case(smaller)[0] == status:
                return shrink(smaller, status, until - time.monotonic())
        except Exception:  # noqa: PERF203 (JAX itself refuses the smaller one)
            continue
    return case


def report(seed):
    """Run the case of a seed, and return what is to be known of it."""
    case, started = make_case(seed), time.monotonic()
    try:
        status, text = run_case(case)
        if status == "wrong" and not make_step(seed).x64 and run_case(case, x64=True)[0] == "same":
            status = "imprecise"
        if status in ("wrong", "raw error"):
            case = shrink(case, status)
            text = run_case(case)[1]
    except Exception as error:
        status, text = "refused by JAX", f"{type(error).__name__}: {error}"[:300]
    known = {
        "seed": seed,
        "status": status,
        "text": text,
        "case": str(case),
        "seconds": round(time.monotonic() - started, 1),
    }
    return known | {"workers": case.workers, "transformation": case.transformation}


def run_children(seeds, limit):
    """Report the seeds one after another; a child process that takes longer than the limit for one is ended."""
    seeds = collections.deque(seeds)
    while seeds:
        count = min(CHUNK, len(seeds))
        command = [sys.executable, "-m", "tests.jax.differentiated.campaign", "--child", str(seeds[0]), str(count)]
        child, lines = subprocess.Popen(command, stdout=subprocess.PIPE, text=True), queue.Queue()
        threading.Thread(target=lambda out=child.stdout, put=lines.put: [*map(put, out), put("")], daemon=True).start()
        for _ in range(count):
            try:
                line = lines.get(timeout=limit)
            except queue.Empty:
                line = ""
            seed = seeds.popleft()
            yield json.loads(line) if line else {"seed": seed, "status": "hang or crash", "case": str(make_case(seed))}
            if not line:
                break
        child.kill()
        child.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=200, help="seconds for each step")
    parser.add_argument("--log", default=os.devnull, help="a file that gets a line of JSON for each step")
    parser.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        for seed in range(options.child[0], sum(options.child)):
            print(json.dumps(report(seed)), flush=True)
        return
    counts: collections.Counter[str] = collections.Counter()
    with open(options.log, "a") as log:
        for known in run_children(range(options.seed, options.seed + options.functions), options.limit):
            print(json.dumps(known), file=log, flush=True)
            counts[known["status"]] += 1
            if known["status"] not in ("same", "not finite"):
                print(*(f"{name}: {value}" for name, value in known.items()), sep="\n", end="\n\n", flush=True)
    print(dict(counts))
    sys.exit(bool(counts["wrong"] + counts["raw error"] + counts["hang or crash"]))


if __name__ == "__main__":
    main()
