import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from tofu.errors import UnsupportedError
from tofu.jax.compare.comparison import FREE, SPLIT, PlanComparison, find_devices, print_rows
from tofu.jax.compare.peers import PEERS, split_arguments
from tofu.jax.frontend.read_step import read_step
from tofu.jax.planning import read_settings
from tofu.report.console import print_to_text

WIDTH, BATCH, WORKERS = 256, 64, 4
WEIGHT_BYTES = 4 * WIDTH * WIDTH


def step(params, batch, rate):
    x, y = batch
    value, gradients = jax.value_and_grad(lambda params: jnp.sum((jnp.tanh(x @ params["a"]) @ params["b"] - y) ** 2))(
        params
    )
    return jax.tree.map(lambda p, g: p - rate * g, params, gradients), value


def make_arguments(batch=BATCH):
    shape = jax.ShapeDtypeStruct
    weights = dict.fromkeys("ab", shape((WIDTH, WIDTH), "float32"))
    return weights, (shape((batch, WIDTH), "float32"),) * 2, shape((), "float32")


def compare(arguments, peers=PEERS, **options):
    settings = read_settings(WORKERS, {"cache": False, **options})
    comparison = PlanComparison(step, read_step(step, arguments.all), arguments, settings, find_devices(WORKERS))
    return {row.name: row for row in comparison.run(peers)}


def test_rows_move_the_known_and_planned_bytes():
    rows = compare(split_arguments(make_arguments()))
    data = 2 * 4 * BATCH * WIDTH // WORKERS + 4
    parallel, sharded, split, free = (rows[name] for name in ("data parallel", "FSDP / ZeRO-3", SPLIT, FREE))
    assert parallel.moved_bytes == 2 * (WORKERS - 1) * (2 * WEIGHT_BYTES + 4)  # all-reduces of gradients and loss
    assert parallel.argument_bytes == 2 * WEIGHT_BYTES + data
    assert sharded.argument_bytes == 2 * WEIGHT_BYTES // WORKERS + data
    assert split.argument_bytes <= sharded.argument_bytes
    for row in (split, free, rows["Tofu within data parallel"], rows["Tofu within FSDP / ZeRO-3"]):
        assert 0 < row.moved_bytes <= row.planned_bytes
        assert row.planned_bytes == pytest.approx(row.moved_bytes, rel=0.02)
    assert rows["Tofu within data parallel"].moved_bytes < parallel.moved_bytes
    assert rows["Tofu within FSDP / ZeRO-3"].argument_bytes <= sharded.argument_bytes


def test_a_peer_that_does_not_apply_has_its_whole_reason():
    def fail(mesh, arguments):
        raise ValueError(f"a reason\nof two lines {'and more ' * 99}to its end")

    comparison = compare(split_arguments(make_arguments(BATCH + 2)), peers={**PEERS, "other": fail})
    text = print_to_text(lambda console: print_rows(console, "title", list(comparison.values())))
    assert f"a reason of two lines {'and more ' * 99}to its end" in " ".join(text.split())
    for name in PEERS:
        reason = f"{name}: does not apply: A batch of 66 cannot be split into 4 equal shards. Use a multiple of 4"
        assert reason in " ".join(text.split())


def test_the_batch_is_found_or_named():
    weights, (x, _), rate = make_arguments()
    assert split_arguments((weights, (x, x), rate)).batch == BATCH
    assert split_arguments((weights, (x, x), rate), WIDTH).batch == WIDTH
    with pytest.raises(UnsupportedError, match=r"The batch cannot be split: .* of extent 3.*--batch N"):
        split_arguments((weights, (x, x), rate), 3)
    with pytest.raises(UnsupportedError, match="--batch N"):
        split_arguments((weights, rate))


def test_the_command_runs_with_one_device(tmp_path):
    file = tmp_path / "train.py"
    file.write_text("from tests.jax.test_compare import make_arguments as example_args, step\n")
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-m", "tofu", "compare", f"{file}:step", "--workers", str(WORKERS)]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    assert f"train.py:step on {WORKERS} workers" in finished.stdout
    assert "Overlap" not in finished.stdout  # CPUs do not transfer while they compute
    assert all(len(line) <= 80 for line in finished.stdout.partition("\n\n")[0].splitlines())
    (moved,) = re.findall(r"\ndata parallel +- +([\d.]+) ", finished.stdout)
    assert float(moved) == round(2 * (WORKERS - 1) * (2 * WEIGHT_BYTES + 4) / 1e6, 2)
