import os
import subprocess
import sys

import pytest

from tests.numpy_engine.backend import NUMPY, find_peaks
from tests.numpy_engine.runs import partition
from tofu.errors import InternalError
from tofu.program import check_program

PLAN_AND_RUN = """
import sys
from tests.numpy_engine.runs import check_run, partition
check_run(partition("perceptron", 2), "perceptron")
known = {"mxnet", "tofu._mxnet", "tofu.mxnet"} & set(sys.modules)
assert not known, known
"""


def test_graph_plan_and_program_print(check_golden):
    made = partition("perceptron", 2)
    check_golden("graph.txt", f"{made.graph}\n")
    check_golden("plan.txt", f"{made.plan}\n")
    check_golden("program.txt", f"{made.training.program}\n")


def test_no_framework_is_imported(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", PLAN_AND_RUN], check=True, cwd=tmp_path, env=environment)


def test_peaks_of_live_bytes():
    assert find_peaks([0, 1, 0, 1], [8, 4, 2, 1], [set(), set(), {0}, {1}], {3}) == {0: 10, 1: 5}
    assert find_peaks([0, 0, 0], [8, 4, 2], [set(), {0}, {1}], set()) == {0: 12}


def test_wrong_result_sizes_are_found():
    made = partition("perceptron", 2)
    execution = made.training
    check_program(execution.program, made.plan.communication_bytes)
    wrong = type(execution)(
        execution.graph, execution.program, execution.attributes, execution.boxes, execution.result_boxes[::-1]
    )
    with pytest.raises(InternalError, match="The shards of a result have the shapes"):
        NUMPY.backend.check(wrong, made.choices)
