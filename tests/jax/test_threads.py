"""Threads that XLA gets for virtual CPU devices: too few of them deadlock."""

import os
import subprocess
import sys

import pytest


def run(program, **environment):
    others = {name: value for name, value in os.environ.items() if name not in ("NPROC", "XLA_FLAGS")}
    asked = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu", **environment}
    done = subprocess.run(
        [sys.executable, "-c", program], env=others | asked, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, "64"), ({"NPROC": "3"}, "3"), ({"XLA_FLAGS": "", "JAX_NUM_CPU_DEVICES": "100"}, "800")],
)
def test_the_number_of_threads_follows_the_devices(environment, expected):
    assert run("import os, tofu.jax; print(os.environ.get('NPROC'))", **environment) == expected
