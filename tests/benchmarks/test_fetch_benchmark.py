"""The benchmark of the fetch kernel, as far as it runs without a GPU: checks on emulated GPUs, its table and its picture."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fetch_geometry, multi_fetch

ROOT = Path(__file__).parent.parent.parent


def run(*arguments):
    command = [sys.executable, "-m", "benchmarks.multi_fetch", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_kernels_equal_numpy_on_emulated_gpus():
    result = run("--emulate", "--random", "8")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("8 random geometries and ")


@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is installed")
def test_says_what_it_needs():
    result = run()
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("This benchmark needs CuPy (No module named 'cupy')")
    assert result.stderr.endswith("Without a GPU: --emulate.\n")


def test_real_plans_are_whole():
    """What is saved reads back, and every box lies inside its array."""
    plans = [fetch for path in sorted(fetch_geometry.FOLDER.glob("*.json")) for fetch in fetch_geometry.load(path)]
    assert len(plans) > 10
    for fetch in plans:
        for piece in fetch.pieces:
            ends = np.add(piece.begin, piece.extent)
            assert (ends <= fetch.shape).all()
            for source, begin in piece.sources:
                assert (np.add(begin, piece.extent) <= fetch.inputs[source]).all()


def test_files_keep_fetches(tmp_path):
    fetches = [fetch_geometry.random_fetch(seed) for seed in range(20)]
    fetch_geometry.save(fetches, tmp_path / "fetches.json")
    assert fetch_geometry.load(tmp_path / "fetches.json") == fetches


def test_images_have_a_border_that_is_filled():
    fetch = fetch_geometry.bordered("images", 3, 5)
    images = np.arange(75.0, dtype="float32").reshape(3, 5, 5)
    expected = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    assert np.array_equal(fetch.compute(np, [images], "float32"), expected)


def test_bytes_are_those_that_have_to_move():
    assert fetch_geometry.summed("sum", 8, 100).bytes_moved(4) == 9 * 400
    assert fetch_geometry.side_by_side("rows", 4, 10, 16, padding=16).bytes_moved(2) == 2 * 4 * 10 * 16 * 2


AS_WITH_CUPY = """
import os, sys
from pathlib import Path
from tests.cuda import native
from benchmarks import fetch_geometry, multi_fetch
from tests.benchmarks import emulated_cupy
sys.modules["cupy"] = emulated_cupy
os.environ["TOFU_CUDA_DRIVER"] = os.environ["TOFU_NVRTC"] = {driver}
multi_fetch.FOLDER = Path({folder!r})
fetch_geometry.save([fetch_geometry.random_fetch(5)], multi_fetch.FOLDER / "plan.json")
multi_fetch.main(["--random", "4", "--mib", "1", "--runs", "1", "--save", {folder!r} + "/picture.png"])
"""


def run_with_cupy(folder, driver="str(native.build_emulated_gpu())"):
    command = [sys.executable, "-c", AS_WITH_CUPY.format(folder=str(folder), driver=driver)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


def test_runs_as_it_stands_where_there_is_a_gpu(tmp_path):
    """Checks, times, prints and draws, over NumPy in the place of CuPy; every event is a millisecond after the other."""
    result = run_with_cupy(tmp_path)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "4 random geometries and 1 of real plans: equal to NumPy, written and added; inputs on 1 GPU(s)."
    assert lines[2] == "Emulated GPU (8.0), float32"
    goals = ("0.90", "0.90", "0.85", "0.70", "0.40", "0.85")
    assert [line.split()[-4:] for line in lines[5:11]] == [["1.00", goal, "1.0x", "2.0x"] for goal in goals]
    assert [line.split()[-3:] for line in lines[11:14]] == [["1.00", "1.0x", "2.0x"]] * 3
    assert lines[15] == "Goals reached: 6 of 6 shares, 0 of 9 speed-ups."
    assert lines[17] == f"The picture is in {tmp_path}/picture.png; red bars are the goals."
    assert (tmp_path / "picture.png").stat().st_size > 10000


def test_what_the_gpu_refuses_is_one_sentence(tmp_path):
    result = run_with_cupy(tmp_path, driver="'/nowhere/library.so'")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("This benchmark cannot use the GPU: the CUDA driver cannot be loaded")


def test_table_counts_the_goals_that_are_reached(capsys):
    fetch = fetch_geometry.stacked("contiguous", 2, 250_000_000)  # 4 GB
    timings = [
        multi_fetch.Timing(multi_fetch.Case(fetch, goal), fetch.bytes_moved(4), 4e-3, copy, cupy)
        for goal, copy, cupy in ((0.9, 3.68e-3, 8e-3), (0.9, 3.5e-3, 7e-3), (None, 1e-3, 9e-3))
    ]
    multi_fetch.print_table(timings, "A GPU (9.0)")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "A GPU (9.0), float32"
    assert lines[4].split() == ["contiguous", "3815", "1000", "1087", "0.92", "0.90", "2.0x", "2.0x"]
    assert lines[-1] == "Goals reached: 1 of 2 shares, 2 of 3 speed-ups."
