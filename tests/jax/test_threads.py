"""Threads that XLA gets for virtual CPU devices: too few of them deadlock."""

import os
import subprocess
import sys

import pytest

from tofu.jax.frontend.versions import reserve_threads


def test_importing_tofu_reserves_threads():
    others = {name: value for name, value in os.environ.items() if name not in ("NPROC", "XLA_FLAGS")}
    given = others | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "100"}
    command = [sys.executable, "-c", "import os, tofu.jax; print(os.environ.get('NPROC'))"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "800"


@pytest.mark.parametrize(("chosen", "expected"), [({}, "64"), ({"NPROC": "3"}, "3")])
def test_the_number_of_threads_follows_the_devices(chosen, expected, monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    for name, value in {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", **chosen}.items():
        monkeypatch.setenv(name, value)
    reserve_threads()
    assert os.environ["NPROC"] == expected
