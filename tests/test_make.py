"""`make` takes a Python that MXNet or JAX runs on, or prints in one line what to install."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NEED_FOR_MXNET = "MXNet 1.9.1 needs Python 3.10 to 3.12: install python3.12, "
NEED_FOR_JAX = "JAX needs Python 3.10 to 3.13: install python3.12, "


@pytest.fixture
def make(tmp_path):
    """Return a function that runs `make` in a fresh clone with these Pythons: version by name, or None for a broken one."""
    clone, programs = tmp_path / "clone", tmp_path / "programs"
    clone.mkdir()
    programs.mkdir()
    for path in ROOT.iterdir():
        if path.name not in (".git", ".venv", "build"):
            (clone / path.name).symlink_to(path)
    (programs / "find").symlink_to(shutil.which("find"))

    def run(pythons, *arguments):
        for name, version in pythons.items():
            pretend = f'exec {sys.executable} -c "import sys; sys.version_info = {version}; exec(sys.argv[1])" "$2"'
            (programs / name).write_text(f"#!/bin/sh\n{pretend if version else 'exit 127'}\n")
            (programs / name).chmod(0o755)
        command = [shutil.which("make"), "-C", clone, "--no-print-directory", *arguments]
        return subprocess.run(command, env={"PATH": str(programs)}, capture_output=True, text=True)

    return run


@pytest.mark.parametrize(
    ("target", "pythons", "taken"),
    [
        ("demo", {"python3.10": (3, 10), "python3.11": (3, 11), "python3.12": (3, 12)}, "python3.11"),
        ("demo", {"python3.10": (3, 10), "python3.12": (3, 12), "python3": (3, 13)}, "python3.12"),
        ("demo", {"python3.11": None, "python3": (2, 7), "python": (3, 10)}, "python"),
        ("demo-jax", {"python3.12": (3, 12), "python3.13": (3, 13)}, "python3.12"),
        ("demo-jax", {"python3": (3, 13)}, "python3"),
    ],
)
def test_a_suitable_python_is_taken(make, target, pythons, taken):
    done = make(pythons, "--dry-run", target)
    assert f"/{taken} -m venv .venv\n" in done.stdout


@pytest.mark.parametrize(
    ("target", "pythons", "need"),
    [
        ("demo", {}, NEED_FOR_MXNET),
        ("demo", {"python3": (3, 13), "python3.13": (3, 13)}, NEED_FOR_MXNET),
        ("test", {"python3.12": None}, NEED_FOR_MXNET),
        ("demo PYTHON=python3.13", {"python3.11": (3, 11), "python3.13": (3, 13)}, NEED_FOR_MXNET),
        ("demo-jax", {"python3": (3, 14)}, NEED_FOR_JAX),
        ("test-jax", {"python3": (3, 9)}, NEED_FOR_JAX),
    ],
)
def test_without_a_suitable_python_one_line_tells_what_to_install(make, target, pythons, need):
    done = make(pythons, *target.split())
    assert done.returncode == 2
    assert done.stdout.startswith(need)
    assert len(done.stdout.splitlines()) == 1
