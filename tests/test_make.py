"""`make` takes a Python that MXNet runs on, whichever is there, or says in one line what to install."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOT_THERE = "MXNet 1.9.1 needs Python 3.10 to 3.12: install python3.12, "
NOT_THERE_FOR_JAX = "JAX needs Python 3.10 to 3.13: install python3.12, "


@pytest.fixture
def make(tmp_path):
    """Runs `make ARGUMENTS` as in a fresh clone where these are all the Pythons: version by name, or None for one that does not run."""
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
    ("pythons", "taken"),
    [
        ({"python3.10": (3, 10), "python3.11": (3, 11), "python3.12": (3, 12)}, "python3.11"),
        ({"python3.10": (3, 10), "python3.12": (3, 12), "python3": (3, 13)}, "python3.12"),
        ({"python3.10": (3, 10), "python3.9": (3, 9)}, "python3.10"),
        ({"python3.11": None, "python3.12": (3, 12)}, "python3.12"),
        ({"python3": (3, 12)}, "python3"),
        ({"python3": (2, 7), "python": (3, 10)}, "python"),
    ],
)
def test_the_first_that_mxnet_runs_on_is_taken(make, pythons, taken):
    done = make(pythons, "--dry-run", "demo")
    assert f"/{taken} -m venv .venv\n" in done.stdout


@pytest.mark.parametrize(
    "pythons", [{}, {"python3": (3, 13), "python3.13": (3, 13)}, {"python3": (3, 9)}, {"python3.12": None}]
)
@pytest.mark.parametrize("target", ["demo", "test"])
def test_where_there_is_none_one_line_says_what_to_install(make, pythons, target):
    done = make(pythons, target)
    assert done.returncode == 2
    assert done.stdout.startswith(NOT_THERE)
    assert len(done.stdout.splitlines()) == 1


def test_scripts_find_the_sources_wherever_they_are_run(make, tmp_path):
    """What `make` runs with the environment's Python, run with one whose packages are in a folder of its own."""
    commands = make({"python3.11": (3, 11)}, "--dry-run", "demo").stdout.splitlines()
    (written,) = (line for line in commands if "tofu-sources.pth" in line)
    code = shlex.split(written)[2].replace('sysconfig.get_path("purelib")', "sys.argv[2]")
    subprocess.run([sys.executable, "-c", code, ROOT, tmp_path], check=True)
    assert (tmp_path / "tofu-sources.pth").read_text() == f"{ROOT}\n"


def test_one_may_be_named(make):
    pythons = {"python3.11": (3, 11), "python3.12": (3, 12), "python3.13": (3, 13)}
    assert "\npython3.12 -m venv .venv\n" in make(pythons, "--dry-run", "demo", "PYTHON=python3.12").stdout
    assert make(pythons, "demo", "PYTHON=python3.13").stdout.startswith(NOT_THERE)


@pytest.mark.parametrize(
    ("pythons", "taken"),
    [
        ({"python3.12": (3, 12), "python3.13": (3, 13)}, "python3.12"),
        ({"python3.13": (3, 13), "python3": (3, 14)}, "python3.13"),
        ({"python3": (3, 13)}, "python3"),
    ],
)
def test_the_demo_of_jax_takes_a_python_that_jax_runs_on(make, pythons, taken):
    done = make(pythons, "--dry-run", "demo-jax")
    assert f"/{taken} -m venv .venv\n" in done.stdout


@pytest.mark.parametrize("target", ["demo-jax", "test-jax"])
@pytest.mark.parametrize("pythons", [{}, {"python3": (3, 14)}, {"python3": (3, 9)}])
def test_where_jax_runs_on_none_one_line_says_what_to_install(make, pythons, target):
    done = make(pythons, target)
    assert done.returncode == 2
    assert done.stdout.startswith(NOT_THERE_FOR_JAX)
    assert len(done.stdout.splitlines()) == 1
