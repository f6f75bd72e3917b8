"""Every script of `examples/mxnet` as its user runs it: trained on one device and on several."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (ROOT / "examples/mxnet").glob("*.py") if path.stem != "side_by_side")


def run(path, *arguments):
    """What a script prints."""
    given = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, path, *arguments], env=given, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_trains_on_several_devices_as_on_one(path):
    done = run(path, "--steps", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^The plan.*: \d workers move [\d,]+ bytes in a step", done.stdout, re.MULTILINE)
    losses = re.findall(r"^ +\d +(-?\d+\.\d+) +(-?\d+\.\d+)$", done.stdout, re.MULTILINE)
    assert len(losses) == 3
    assert len(set(losses)) == 3, "the step does not train"


def test_numbers_that_differ_are_a_failure(tmp_path):
    """A partitioned model that is another than the model."""
    text = (ROOT / "examples/mxnet/cnn.py").read_text()
    line = "net = tofu.partition(net, ngpus=workers)"
    assert line in text
    path = tmp_path / "other.py"
    path.write_text(
        text.replace(line, "net = tofu.partition(mx.sym.SoftmaxOutput(net * 2, name='other'), ngpus=workers)")
    )
    (tmp_path / "side_by_side.py").symlink_to(ROOT / "examples/mxnet/side_by_side.py")
    done = run(path, "--steps", "1")
    assert done.returncode != 0
