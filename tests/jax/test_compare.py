"""`python -m tofu compare`: what a step moves under Tofu's plans, and under those that people pick by hand."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import tofu.jax
from tofu.errors import UnsupportedError
from tofu.jax.compare.comparison import FREE, GIVEN, SPLIT, PlanComparison, find_devices
from tofu.jax.compare.peers import split_arguments
from tofu.jax.frontend.read_step import read_step
from tofu.jax.planning import read_settings

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


def compare(arguments, **options):
    settings = read_settings(WORKERS, {"cache": False, **options})
    comparison = PlanComparison(step, read_step(step, arguments.all), arguments, settings, find_devices(WORKERS))
    return {row.name: row for row in comparison.run()}


def test_peers_move_what_is_known_of_them_and_plans_what_they_count():
    rows = compare(split_arguments(make_arguments()))
    data = 2 * 4 * BATCH * WIDTH // WORKERS + 4
    parallel, sharded, split, free = (rows[name] for name in ("data parallel", "FSDP / ZeRO-3", SPLIT, FREE))
    assert parallel.moved_bytes == 2 * (WORKERS - 1) * (
        2 * WEIGHT_BYTES + 4
    )  # gradients and the loss, added up everywhere
    assert parallel.argument_bytes == 2 * WEIGHT_BYTES + data
    assert sharded.argument_bytes == 2 * WEIGHT_BYTES // WORKERS + data
    assert split.argument_bytes <= sharded.argument_bytes
    for row in (split, free, rows["Tofu within data parallel"], rows["Tofu within FSDP / ZeRO-3"]):
        assert 0 < row.moved_bytes <= row.planned_bytes
        assert row.planned_bytes == pytest.approx(row.moved_bytes, rel=0.02)
    assert rows["Tofu within data parallel"].moved_bytes < parallel.moved_bytes
    assert rows["Tofu within FSDP / ZeRO-3"].argument_bytes <= sharded.argument_bytes


def test_a_plan_that_is_given_stands_beside_those_that_are_searched():
    arguments = split_arguments(make_arguments())
    searched = compare(arguments)
    by_batch = {"params/a": 1, "params/b": 1}  # not as the search has it
    plan = tofu.jax.partition(step, WORKERS, arguments.all, hints=by_batch, cache=False).plan
    rows = compare(arguments, plan=plan)
    assert rows[GIVEN].planned_bytes == plan.communication_bytes > searched[SPLIT].planned_bytes
    del rows[GIVEN]
    moved = ({name: row.moved_bytes for name, row in found.items()} for found in (rows, searched))
    assert next(moved) == next(moved)


def test_a_batch_that_devices_cannot_share_is_no_plan():
    rows = compare(split_arguments(make_arguments(BATCH + 1)))
    assert "does not apply" in rows["data parallel"].note
    assert "Tofu within data parallel" not in rows


def test_the_extent_of_the_batch_is_found_or_said():
    weights, (x, _), rate = make_arguments()
    assert split_arguments((weights, (x, x), rate)).batch == BATCH
    assert split_arguments((weights, (x, x), rate), WIDTH).batch == WIDTH
    with pytest.raises(UnsupportedError, match=r"of extent 3, along which the batch could be split.*--batch N"):
        split_arguments((weights, (x, x), rate), 3)
    with pytest.raises(UnsupportedError, match="--batch N"):
        split_arguments((weights, rate))


def test_the_command_needs_no_devices(tmp_path):
    """In a process of its own, whose JAX has one device."""
    file = tmp_path / "train.py"
    file.write_text("from tests.jax.test_compare import make_arguments as example_args, step\n")
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-m", "tofu", "compare", f"{file}:step", "--workers", str(WORKERS)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert told.returncode == 0, told.stderr
    assert f"train.py:step on {WORKERS} devices" in told.stdout
    assert all(len(line) <= 80 for line in told.stdout.partition("\n\n")[0].splitlines())
    (moved,) = re.findall(r"\ndata parallel +- +([\d.]+) ", told.stdout)
    assert float(moved) == round(2 * (WORKERS - 1) * (2 * WEIGHT_BYTES + 4) / 1e6, 2)
