"""What a GPU is asked first, on an emulated one: the program that checks every kernel there is right, and says what is wrong."""

import json
import os
import subprocess

from benchmarks import gpu
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
    device, checks = gpu.read_lines(result.stdout)
    assert device["name"] == "Emulated GPU"
    assert checks["failed"] == 0 == result.returncode, result.stdout
    assert checks["parts"] > 700
    assert checks["fetches"] == 360


def test_figures_stand_beside_their_goals(tmp_path, capsys):
    run = gpu.Run(tmp_path, emulated=False, few=True)
    run.figures = {
        "device": {"name": "A GPU", "capability": 90, "nvrtc": 1300},
        "checks": {"parts": 963, "fetches": 360, "failed": 0},
        "copy": {"bandwidth": 3e12},
        "fetches": [],
        "parts": [
            {
                "kernel": name,
                "type": "float32",
                "view": "lines",
                "bytes": 2**28,
                "seconds": 1e-4,
                "share": share,
                "goal": goal,
            }
            for name, share, goal in (("tofu_fast", 0.9, 0.7), ("tofu_slow", 0.5, 0.7), ("tofu_pick", 0.1, None))
        ],
    }
    run.left_out["slices and concatenations"] = "CuPy is not installed"
    gpu.print_figures(run)
    printed = capsys.readouterr().out
    lines = {line.split()[0]: line for line in printed.splitlines() if line.startswith("tofu_")}
    assert lines["tofu_slow"].endswith("missed")
    assert not lines["tofu_fast"].endswith("missed")
    assert not lines["tofu_pick"].endswith("missed")
    assert "reached: 1 of 2 goals of bandwidth" in printed
    assert "left out: slices and concatenations, since CuPy is not installed" in printed


def test_a_step_that_fails_is_noted_and_the_others_go_on(tmp_path):
    run = gpu.Run(tmp_path, emulated=False, few=True)
    run.execute("numbers", ["sh", "-c", "echo the reason; exit 3"])
    assert json.dumps(run.failures) == '["numbers: the reason"]'
    assert (tmp_path / "numbers.log").read_text() == "the reason\n"
