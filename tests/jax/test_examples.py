"""Every script of `examples/jax` as its user runs it: trained on one device and on four, and planned from the command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.campaigns.jax_equality import COMPILED_FAST
from tofu.command_line.main import main

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (ROOT / "examples/jax").glob("*.py") if path.stem not in ("shards", "side_by_side"))
OF_ONE_PROCESS = [path for path in EXAMPLES if path.stem != "two_processes"]  # which test_hosts.py runs
IS_DOUBLE = {"JAX_ENABLE_X64": "1"}
# Without any optimization convolutions take longer than their compilation, and AdamW enlarges roundings by more than is allowed.
OPTIMIZED = {name: {"XLA_FLAGS": "--xla_backend_optimization_level=1"} for name in ("resnet", "transformer")}


def run(path, *arguments, **environment):
    """What a script prints; it makes its own devices."""
    given = {**os.environ, "XLA_FLAGS": COMPILED_FAST, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([sys.executable, path, *arguments], env=given, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("path", OF_ONE_PROCESS, ids=lambda path: path.stem)
def test_it_trains_on_four_devices_as_on_one(path):
    """In double precision, where the script itself asks for 1e-10."""
    done = run(path, "--steps", "3", **IS_DOUBLE, **OPTIMIZED.get(path.stem, {}))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^The plan: 4 workers move [\d,]+ bytes in a step", done.stdout, re.MULTILINE)
    losses = re.findall(r"^ +\d +(-?\d+\.\d+) +(-?\d+\.\d+)$", done.stdout, re.MULTILINE)
    assert len(losses) == 3
    assert len(set(losses)) == 3, "the step does not train"
    assert all(ours == theirs for ours, theirs in losses)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_is_planned_from_the_command_line(path):
    result = CliRunner().invoke(main, ["plan", f"{path}:step", "--workers", "2"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("2 workers")


def test_numbers_that_differ_are_a_failure(tmp_path):
    """A partitioned step that is another function than the step."""
    text = (ROOT / "examples/jax/mlp.py").read_text()
    line = "parallel = tofu.jax.partition(step, options.workers"
    assert line in text
    other = "parallel = tofu.jax.partition(lambda s, b: (s, find_loss(s['params'], b) * (1 + 1e-8)), options.workers"
    path = tmp_path / "other.py"
    path.write_text(text.replace(line, other))
    (tmp_path / "side_by_side.py").symlink_to(ROOT / "examples/jax/side_by_side.py")
    done = run(path, "--steps", "1", "--workers", "2", **IS_DOUBLE)
    assert done.returncode == 1
    assert "That is more than 1e-10, and a defect of Tofu" in done.stderr
