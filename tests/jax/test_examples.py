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


def run(path, *arguments, **environment):
    given = {**os.environ, "XLA_FLAGS": COMPILED_FAST, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([sys.executable, path, *arguments], env=given, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "lstm", "mixture_of_experts", "transformer"])
def test_examples_train_on_four_devices_as_on_one(name):
    flags = {"XLA_FLAGS": "--xla_backend_optimization_level=1"} if name == "transformer" else {}
    done = run(ROOT / f"examples/jax/{name}.py", "--steps", "3", JAX_ENABLE_X64="1", **flags)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^The plan: 4 workers move [\d,]+ bytes in a step", done.stdout, re.MULTILINE)
    losses = re.findall(r"^ +\d +(-?\d+\.\d+) +(-?\d+\.\d+)$", done.stdout, re.MULTILINE)
    assert len(losses) == 3
    assert len(set(losses)) == 3, "the step does not train"
    assert all(ours == theirs for ours, theirs in losses)


@pytest.mark.slow
def test_tokens_of_a_split_cache_are_those_of_one_device():
    done = run(ROOT / "examples/jax/decode.py", "--tokens", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    plan, *tokens = done.stdout.splitlines()
    assert int(re.search(r"move ([\d,]+) bytes", plan)[1].replace(",", "")) < 2**20
    assert len(set(tokens)) == 5
    assert "One device" not in done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_planned_from_the_command_line(path):
    result = CliRunner().invoke(main, ["plan", f"{path}:step", "--workers", "2"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("2 workers")
