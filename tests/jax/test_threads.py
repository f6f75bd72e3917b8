"""Threads that XLA gets for virtual devices of a CPU: with too few devices wait for each other."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.campaigns.jax_equality import COMPILED_FAST

ONE_PLAN = """
from tests.campaigns.jax_equality import Case, run_alone
_, result = run_alone(Case("recurrence", "float64", 8, (2,), False, 2, 20))
print(result.plans, result.problems)
"""


def run(program, **environment):
    """What a program prints in a process of its own, on eight devices unless the environment says otherwise."""
    others = {name: value for name, value in os.environ.items() if name not in ("NPROC", "XLA_FLAGS")}
    asked = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu", **environment}
    done = subprocess.run(
        [sys.executable, "-c", program], env=others | asked, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_a_plan_runs_that_ended_the_process_where_there_are_fewer_cores_than_devices():
    flags = f"--xla_force_host_platform_device_count=8 {COMPILED_FAST}"
    assert run(ONE_PLAN, XLA_FLAGS=flags) == "1 []"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "64"),
        ({"NPROC": "3"}, "3"),
        ({"XLA_FLAGS": ""}, "None"),
        ({"XLA_FLAGS": "", "JAX_NUM_CPU_DEVICES": "100"}, "800"),
    ],
)
def test_threads_follow_the_devices_unless_they_are_given(environment, expected):
    assert run("import os, tofu.jax; print(os.environ.get('NPROC'))", **environment) == expected
