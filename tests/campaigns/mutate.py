"""Mutation score of core modules: the share of small random changes (mutants) that make a test fail.

`make mutate` runs it; docs/testing.md describes it. It needs cosmic-ray and works on a copy of the checkout.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import click
from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import MutationSpec, TestOutcome

TESTS = {
    "tofu/analysis": "tests/analysis",
    "tofu/tdl": "tests/tdl tests/analysis",
    "tofu/search": "tests/search",
    "tofu/program": "tests/program tests/numpy_engine",
    "tofu/planning": "tests/planning",
}
MODULES = (
    *(f"tofu/analysis/{name}.py" for name in ("interval", "symbolic", "axes")),
    "tofu/tdl/expression.py",
    *(f"tofu/search/{name}.py" for name in ("rounds", "hints", "topology")),
    *(f"tofu/program/{name}.py" for name in ("collectives", "check")),
    "tofu/planning/selection.py",
)


def list_mutations(module: Path) -> list[MutationSpec]:
    """Return all mutations of a module, in a fixed order, except of type annotations, which no test can notice."""
    tree = ast.walk(ast.parse(module.read_text()))
    notes = [getattr(node, name, None) for node in tree for name in ("annotation", "returns")]
    spans = [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in notes if n is not None]
    database = WorkDB(":memory:", WorkDB.Mode.create)
    init([module], database, {})
    mutations = [mutation for item in database.work_items for mutation in item.mutations]
    mutations = [m for m in mutations if not any(start <= m.start_pos < end for start, end in spans)]
    return sorted(mutations, key=lambda m: (m.start_pos, m.operator_name, m.occurrence))


def score_module(module: Path, python: Path, count: int, seed: int) -> tuple[int, int]:
    """Test a sample of mutants. Print the survivors and return how many were caught, and how many there were."""
    tests = TESTS[str(module.parent)]
    command = f"{python} -m pytest -x -q -p no:cacheprovider --hypothesis-seed=0 {tests}"
    start = time.monotonic()
    if subprocess.run(command.split(), stdout=subprocess.DEVNULL).returncode:
        raise click.ClickException(f"The tests fail without a mutant: {command}")
    timeout = 30 + 4 * (time.monotonic() - start)  # a mutant that hangs counts as caught
    mutations = list_mutations(module)
    sample = random.Random(seed).sample(mutations, min(count, len(mutations)))
    results = [mutate_and_test([mutation], command, timeout) for mutation in sample]
    survivors = [result for result in results if result.test_outcome == TestOutcome.SURVIVED]
    for result in survivors:
        click.echo(result.diff + "\n")
    return len(results) - len(survivors), len(results)


@click.command(help=__doc__)
@click.argument("modules", nargs=-1)
@click.option("--root", type=Path, default=Path(), help="A checkout with .venv and built modules.")
@click.option("--count", default=20, show_default=True, help="Mutants of each module.")
@click.option("--seed", default=0, show_default=True, help="Seed of the sample.")
def main(modules: tuple[str, ...], root: Path, count: int, seed: int) -> None:
    python = root.absolute() / ".venv/bin/python"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns(".git", ".venv", "build", "*cache*"))
        os.chdir(copy)
        os.environ["PYTHONPATH"] = str(copy)
        for module in modules or MODULES:
            caught, tried = score_module(Path(module), python, count, seed)
            click.echo(f"{module}: {caught} of {tried} mutants caught ({caught / tried:.0%})")


if __name__ == "__main__":
    main()
