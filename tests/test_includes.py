import importlib.util
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[1] / "csrc"
SCRIPT = CSRC / "check_includes.py"


def load_script():
    spec = importlib.util.spec_from_file_location("check_includes", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_includes = load_script()


def plant(tree, folder, *includes):
    (tree / folder).mkdir(parents=True)
    (tree / folder / "planted.h").write_text("\n".join(["// planted", *(f"#include {name}" for name in includes), ""]))
    return tree


def test_the_sources_keep_the_rules():
    assert list(check_includes.find_violations()) == []


def test_folders_include_only_folders_above_them():
    names = list(check_includes.FOLDERS)
    for position, name in enumerate(names):
        assert set(check_includes.FOLDERS[name].split()) <= set(names[:position]), name


@pytest.mark.parametrize(
    ("folder", "include"),
    [
        ("core/graph", "<mxnet/base.h>"),
        ("core/graph", "<cuda_runtime.h>"),
        ("core/graph", '"Python.h"'),
        ("core/graph", '"nnvm/base/mxnet_api.h"'),
        ("core/graph", '"core/geometry/geometry.h"'),
        ("core/bounds", '"core/graph/graph.h"'),
        ("core/program", '"core/search/exact.h"'),
        ("cuda", "<cuda.h>"),
        ("cuda", '"core/graph/graph.h"'),
        ("cuda", '"nnvm/base/gpu_call.h"'),
        ("nnvm/graph", '"nnvm/memory/memory_plan.h"'),
        ("nnvm/parts", "<pybind11/numpy.h>"),
    ],
)
def test_planted_includes_are_found(tmp_path, folder, include):
    (found,) = check_includes.find_violations(plant(tmp_path, folder, "<vector>", f'"{folder}/planted.h"', include))
    assert found.startswith(f"{tmp_path / folder / 'planted.h'}:4: {include} is not of {folder}")


@pytest.mark.parametrize("spelling", ["#  include <Python.h>", "  #include<Python.h>"])
def test_includes_are_found_however_they_are_spelled(tmp_path, spelling):
    (plant(tmp_path, "core/base") / "core/base/planted.h").write_text(spelling)
    assert len(list(check_includes.find_violations(tmp_path))) == 1


def test_allowed_includes_are_not_reported(tmp_path):
    plant(tmp_path, "core/cost", "<cstdint>", '"core/cost/cost.h"', '"core/geometry/geometry.h"')
    plant(tmp_path, "cuda", "<dlfcn.h>", '"planted.h"', '"core/program/program.h"')
    plant(tmp_path, "nnvm/base", "<mxnet/base.h>", "<nnvm/graph.h>", '"cuda/driver.h"')
    assert list(check_includes.find_violations(tmp_path)) == []
