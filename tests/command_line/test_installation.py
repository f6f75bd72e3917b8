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


def test_doctor_lists_the_installation():
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


def test_doctor_prints_remedies(monkeypatch):
    def fail():
        raise ImportError("MXNet cannot be imported:\n  pip install it anew")

    monkeypatch.setattr("tofu.imports.mxnet.import_mxnet", fail)
    result = run("doctor")
    assert result.exit_code == 1
    assert "-> MXNet cannot be imported: pip install it anew" in result.output
    assert "native code" not in result.output


def test_doctor_runs_without_mxnet(monkeypatch):
    monkeypatch.setattr(doctor, "_find_version", lambda *packages: doctor.NOT_INSTALLED)
    result = run("doctor")
    assert result.exit_code == 0
    assert "MXNet   not installed; the planner" in result.output


@pytest.fixture(scope="module")
def bare_tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("bare")
    shutil.copytree(Path(tofu.__file__).parent, root / "tofu", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return root


def run_in(root, *arguments):
    command = [sys.executable, "-B", "-m", "tofu", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "is_broken", "printed"),
    [
        (["--version"], False, tofu.__version__),
        (["--help"], False, "doctor  Check the installation"),
        (["doctor"], False, r"core +missing\n +-> Tofu's native code is not built .*: make build"),
        (["diff", "a.json", "b.json"], False, r"Error: Tofu's native code is not built .*: make build, or pip install"),
        (
            ["diff", "a.json", "b.json"],
            True,
            r"Error: Tofu's native code does not fit this Python or MXNet \(.*too short",
        ),
    ],
)
def test_a_tree_without_native_code(bare_tree, arguments, is_broken, printed):
    library = bare_tree / "tofu/_core.abi3.so"
    if is_broken:
        library.write_bytes(b"none")
    result = run_in(bare_tree, *arguments)
    library.unlink(missing_ok=True)
    assert result.returncode == (0 if arguments[0].startswith("--") else 1)
    assert re.search(printed, result.stdout + result.stderr)
    assert "Traceback" not in result.stderr


def test_diff_lists_differences_of_plans(tmp_path):
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
