"""The benchmark of the fetch kernel, as far as it runs without a GPU: checks on emulated GPUs, its table and its picture."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import fetch_geometry, multi_fetch

ROOT = Path(__file__).parent.parent.parent


def run(*arguments):
    command = [sys.executable, "-m", "benchmarks.multi_fetch", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_kernels_equal_numpy_on_emulated_gpus():
    result = run("--emulate", "--random", "64")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("64 random geometries and ")


@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is installed")
def test_says_what_it_needs():
    result = run()
    assert result.returncode == 1
    assert "This benchmark needs CuPy" in result.stderr
    assert "Without a GPU: --emulate." in result.stderr


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


def test_bytes_are_those_that_have_to_move():
    assert fetch_geometry.summed("sum", 8, 100).bytes_moved(4) == 9 * 400
    assert fetch_geometry.side_by_side("rows", 4, 10, 16, padding=16).bytes_moved(2) == 2 * 4 * 10 * 16 * 2


class GpuOfNumpy:
    """Stands for CuPy where a case is timed: every action takes as long as it is told to."""

    def __init__(self, library):
        self.library, self.cupy = library, SimpleNamespace(ones=np.ones, full=np.full, cuda=self.Cuda)
        self.stream = SimpleNamespace(ptr=0)

    class Cuda:
        class Device:
            def __init__(self, number): ...
            def synchronize(self): ...

    def empty(self, shape, dtype):
        return np.empty(shape, dtype)

    def copy(self, target, source, count): ...

    def address(self, array):
        return array.ctypes.data

    def seconds(self, action, runs=30):
        action()
        return 1e-3 if runs == 30 else 4e-3


def test_table_and_picture(monkeypatch, tmp_path, capsys):
    launches = []
    monkeypatch.setattr(
        multi_fetch, "NativeFetch", lambda *_: SimpleNamespace(launch=lambda *call: launches.append(call))
    )
    cases = multi_fetch.timed_cases([], mib=1)[1:]
    timings = [multi_fetch.time_case(GpuOfNumpy(None), case) for case in cases]
    multi_fetch.print_table(timings, "A GPU (9.0)")
    lines = capsys.readouterr().out.splitlines()
    assert len(launches) == len(cases)
    assert lines[1] == "A GPU (9.0), float32"
    assert lines[4].split() == ["contiguous,", "1", "MiB", "2", "2", "2", "1.00", "0.90", "4.0x"]
    multi_fetch.save_picture(timings, "A GPU (9.0)", tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10000
