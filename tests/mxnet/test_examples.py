"""Every script of `examples/mxnet` trains on several devices as on one."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Libraries that the environment of the tests lacks; .ci/gluon installs them and runs these examples.
LIBRARIES = {"bert": "gluonnlp", "detector": "gluoncv"}
EXAMPLES = sorted(path for path in (ROOT / "examples/mxnet").glob("*.py") if path.stem != "side_by_side")


def run(path, *arguments):
    given = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, path, *arguments], env=given, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_trains_on_several_devices_as_on_one(path):
    library = LIBRARIES.get(path.stem)
    if library is not None and find_spec(library) is None:
        pytest.skip(f"{path.name} needs {library}, which is not installed: .ci/gluon installs it")
    done = run(path, "--steps", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^The plan.*: \d workers move [\d,]+ bytes in a step", done.stdout, re.MULTILINE)
    losses = re.findall(r"^ +\d +(-?\d+\.\d+) +(-?\d+\.\d+)$", done.stdout, re.MULTILINE)
    assert len(losses) == 3
    assert all(float(found) == pytest.approx(float(expected), rel=1e-4) for expected, found in losses)
    assert len(set(losses)) == 3, "the step does not train"


@pytest.mark.parametrize("name", [*LIBRARIES][:1])
def test_a_missing_library_is_named_with_its_installation(name, tmp_path):
    (tmp_path / f"{LIBRARIES[name]}.py").write_text("raise ImportError('not here')")
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.path.insert(0, __file__.rpartition('/')[0])")
    given = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    path = ROOT / f"examples/mxnet/{name}.py"
    done = subprocess.run([sys.executable, path], env=given, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert re.fullmatch(rf"This example needs .* \(not here\): pip install .*{LIBRARIES[name]}==.*\n", done.stderr)
