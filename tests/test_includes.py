"""What C++ files include: `csrc/check_includes.py`, which `make lint` runs."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[1] / "csrc"
SCRIPT = CSRC / "check_includes.py"


def load_script():
    spec = importlib.util.spec_from_file_location("check_includes", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


checked = load_script()


def plant(tree, folder, *includes):
    """A tree with one file, which includes these."""
    (tree / folder).mkdir(parents=True)
    (tree / folder / "planted.h").write_text("\n".join(["// planted", *(f"#include {name}" for name in includes), ""]))
    return tree


def test_files_include_what_they_may():
    assert list(checked.find_violations()) == []


def test_folders_know_only_folders_above_them():
    names = list(checked.FOLDERS)
    for position, name in enumerate(names):
        assert set(checked.FOLDERS[name].split()) <= set(names[:position]), name


@pytest.mark.parametrize(
    ("folder", "include"),
    [
        ("core/graph", "<mxnet/base.h>"),
        ("core/graph", "<nnvm/graph.h>"),
        ("core/graph", '"nnvm/graph.h"'),
        ("core/graph", "<dmlc/logging.h>"),
        ("core/graph", "<cuda_runtime.h>"),
        ("core/graph", "<pybind11/pybind11.h>"),
        ("core/graph", "<Python.h>"),
        ("core/graph", '"Python.h"'),
        ("core/graph", '"planted.h"'),
        ("core/graph", '"cuda/driver.h"'),
        ("core/graph", '"nnvm/base/mxnet_api.h"'),
        ("core/graph", '"core/geometry/geometry.h"'),
        ("core/bounds", '"core/graph/graph.h"'),
        ("core/program", '"core/search/exact.h"'),
        ("cuda", "<cuda.h>"),
        ("cuda", '"driver.h"'),
        ("cuda", '"core/graph/graph.h"'),
        ("cuda", '"nnvm/base/gpu_call.h"'),
        ("nnvm/graph", '"nnvm/memory/memory_plan.h"'),
        ("nnvm/parts", "<pybind11/numpy.h>"),
    ],
)
def test_a_planted_include_is_found(tmp_path, folder, include):
    (found,) = checked.find_violations(plant(tmp_path, folder, "<vector>", f'"{folder}/planted.h"', include))
    assert found.startswith(f"{tmp_path / folder / 'planted.h'}:4: {include} is not of {folder}")


@pytest.mark.parametrize("spelling", ["#  include <Python.h>", "  #include<Python.h>"])
def test_includes_are_found_however_they_are_spelled(tmp_path, spelling):
    (plant(tmp_path, "core/base") / "core/base/planted.h").write_text(spelling)
    assert len(list(checked.find_violations(tmp_path))) == 1


def test_what_is_allowed_is_not_reported(tmp_path):
    plant(tmp_path, "core/cost", "<cstdint>", '"core/cost/cost.h"', '"core/geometry/geometry.h"')
    plant(tmp_path, "cuda", "<dlfcn.h>", '"planted.h"', '"core/program/program.h"')
    plant(tmp_path, "nnvm/base", "<mxnet/base.h>", "<nnvm/graph.h>", '"cuda/driver.h"')
    assert list(checked.find_violations(tmp_path)) == []


def test_folders_are_in_the_table(tmp_path):
    (found,) = checked.find_violations(plant(tmp_path, "core/attic"))
    assert "core/attic" in found
    assert "FOLDERS in check_includes.py" in found


def test_the_command_fails_where_an_include_is_not_allowed(tmp_path):
    shutil.copy(SCRIPT, plant(tmp_path, "core/base", "<vector>"))
    command = [sys.executable, tmp_path / SCRIPT.name]
    assert subprocess.run(command, check=False).returncode == 0
    (tmp_path / "core/base/planted.h").write_text("#include <mxnet/base.h>\n")
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("\n")) == (1, 1)
    assert "core/base/planted.h:1: <mxnet/base.h>" in done.stdout


@pytest.mark.parametrize("folder", checked.FOLDERS)
def test_readmes_say_what_their_folder_may_include(folder):
    stated = re.search(
        r"^May include (.*?)\.\s*\Z", (CSRC / folder / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert re.findall(r"`([\w/]+)`", stated[1]) == checked.FOLDERS[folder].split()
