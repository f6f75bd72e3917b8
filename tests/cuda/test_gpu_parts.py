"""What a GPU is asked first, on an emulated one: the program that checks every kernel there is right, and says what is wrong."""

import json
import os
import subprocess

from tests.cuda import native


def test_every_kernel_gives_the_numbers_of_its_source_on_the_cpu(emulated_gpu, tmp_path):
    """In shapes of all packings, at odd addresses, in place, added, and in blocks that share a sum."""
    environment = {
        **os.environ,
        "TOFU_CUDA_DRIVER": str(emulated_gpu),
        "TOFU_NVRTC": str(emulated_gpu),
        "TOFU_KERNEL_CACHE": str(tmp_path),
    }
    result = subprocess.run(
        [native.build_gpu_parts(), "check", "--few"], env=environment, capture_output=True, text=True, timeout=300
    )
    device, checks = (json.loads(line) for line in result.stdout.splitlines() if line.startswith("{"))
    assert device["name"] == "Emulated GPU"
    assert checks["failed"] == 0 == result.returncode, result.stdout
    assert checks["parts"] > 700
    assert checks["fetches"] == 360
