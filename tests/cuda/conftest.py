"""An emulated GPU: kernels compiled as C++, and a driver that runs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda import native

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def emulated_gpu():
    """The library that replaces libcuda and NVRTC."""
    return native.build_emulated_gpu()


@pytest.fixture
def run_emulated(emulated_gpu, tmp_path):

    def run(code, **settings):
        environment = {
            **os.environ,
            "TOFU_CUDA_DRIVER": str(emulated_gpu),
            "TOFU_NVRTC": str(emulated_gpu),
            "TOFU_KERNEL_CACHE": str(tmp_path / "kernels"),
            "PYTHONPATH": str(ROOT),
            **settings,
        }
        command = [sys.executable, "-W", "ignore", "-c", code]
        return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600)

    return run
