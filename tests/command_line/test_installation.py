"""`python -m tofu doctor` and `diff`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tofu
from tests.command_line.calls import run
from tests.models.plain import mlp
from tofu.command_line import doctor


def test_doctor_says_what_is_there():
    result = run("doctor")
    assert result.exit_code == 0, result.output
    for part in (
        f"Tofu           {tofu.__version__}",
        "MXNet          1.9.1",
        "fits this MXNet",
        "NumPy",
        "NVRTC",
        "JAX",
    ):
        assert part in result.output


def test_doctor_says_what_to_do(monkeypatch):
    def fail():
        raise ImportError("MXNet cannot be imported:\n  pip install it anew")

    monkeypatch.setattr("tofu.imports.mxnet.import_mxnet", fail)
    result = run("doctor")
    assert result.exit_code == 1
    assert "-> MXNet cannot be imported: pip install it anew" in result.output
    assert "native code" not in result.output


def test_doctor_needs_no_mxnet(monkeypatch):
    monkeypatch.setattr(doctor, "_find_version", lambda *packages: doctor.NOT_INSTALLED)
    result = run("doctor")
    assert result.exit_code == 0
    assert "MXNet   not installed; the planner" in result.output


@pytest.mark.parametrize(("gpus", "remedy"), [(0, ""), (1, "pip install nvidia-cuda-nvrtc-cu11")])
def test_doctor_looks_for_what_compiles_kernels(gpus, remedy, monkeypatch):
    monkeypatch.setenv("TOFU_NVRTC", "/no/such/libnvrtc.so")
    monkeypatch.setattr("tofu.mxnet.runtime.executor.gpus.check_gpus", lambda contexts: None)
    found = {finding.subject: finding for finding in doctor._examine_gpus(gpus)}
    assert found["NVRTC"].found.startswith("not found")
    assert found["NVRTC"].remedy.startswith(remedy)
    assert bool(found["NVRTC"].remedy) == bool(remedy)


@pytest.fixture(scope="module")
def bare_tree(tmp_path_factory):
    """The Python sources, as they are before anything is compiled."""
    root = tmp_path_factory.mktemp("bare")
    shutil.copytree(Path(tofu.__file__).parent, root / "tofu", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return root


def run_in(root, *arguments):
    command = [sys.executable, "-B", "-m", "tofu", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_a_tree_that_is_not_built_says_what_it_is(bare_tree, option):
    result = run_in(bare_tree, option)
    assert result.returncode == 0, result.stderr
    assert (tofu.__version__ if option == "--version" else "doctor  Check the installation") in result.stdout


def test_doctor_says_that_a_tree_is_not_built(bare_tree):
    result = run_in(bare_tree, "doctor")
    assert result.returncode == 1
    assert result.stderr == ""
    assert re.search(r"^core +missing\n +-> Tofu's native code is not built .*: make build", result.stdout, re.M)


def test_other_commands_need_a_tree_that_is_built(bare_tree):
    result = run_in(bare_tree, "diff", "a.json", "b.json")
    assert result.returncode == 1
    assert re.fullmatch(
        r"Error: Tofu's native code is not built .*: make build, or pip install tofu-partitioner\n", result.stderr
    )


def test_native_code_that_does_not_load_is_one_line(bare_tree):
    broken = bare_tree / "tofu/_core.abi3.so"
    broken.write_bytes(b"none")
    try:
        result = run_in(bare_tree, "diff", "a.json", "b.json")
    finally:
        broken.unlink()
    assert re.fullmatch(
        r"Error: Tofu's native code does not fit this Python or MXNet \(.*: file too short\): .*\n", result.stderr
    )


def test_diff_shows_where_plans_differ(tmp_path):
    model, files = mlp(), []
    for number, hints in enumerate(({}, {"fc1": "b"})):
        files.append(str(tmp_path / f"{number}.json"))
        plan = tofu.partition(model.symbol, 2, hints=hints, **model.shapes).plan
        (tmp_path / f"{number}.json").write_text(plan.to_json())
    result = run("diff", *files)
    assert result.exit_code == 1
    assert "bytes moved: " in result.output
    assert re.search(r"^operator fc1: \w+ -> b$", result.output, re.M)
    assert re.search(r"^tensor out_weight: \d -> -$", result.output, re.M)
    assert run("diff", files[0], files[0]).output == "The plans are equal.\n"


def test_diff_of_what_is_no_plan(tmp_path):
    (tmp_path / "plan.json").write_text("{}")
    result = run("diff", str(tmp_path / "plan.json"), str(tmp_path / "plan.json"))
    assert result.exit_code == 1
    assert "Error: " in result.output
