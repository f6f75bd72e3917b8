"""What is made of a step without a framework prints and is drawn, its memory is counted, and no framework is imported for it."""

import os
import subprocess
import sys

import pytest

from tests.numpy_engine.backend import NUMPY, find_peaks
from tests.numpy_engine.runs import partition
from tests.numpy_engine.steps import STEPS
from tofu.engine import Source
from tofu.errors import InternalError
from tofu.program import check_program
from tofu.report.plan_page import render_page

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


@pytest.mark.parametrize("name", STEPS)
def test_the_page_of_a_plan(name):
    made = partition(name, 4)
    page = render_page(made, f"a {name}")
    for named in (f"a {name}", *(operator.name for operator in made.graph.operators if operator.phase == 0)):
        assert named in page


def test_no_framework_is_imported(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", PLAN_AND_RUN], check=True, cwd=tmp_path, env=environment)


def test_peaks_are_the_most_that_is_there_at_a_time():
    """Node 0 is read by 2, node 1 of the other owner by 3, node 2 by nobody; node 3 is a result."""
    assert find_peaks([0, 1, 0, 1], [8, 4, 2, 1], [set(), set(), {0}, {1}], {3}) == {0: 10, 1: 5}
    assert find_peaks([0, 0, 0], [8, 4, 2], [set(), {0}, {1}], set()) == {0: 12}


@pytest.mark.parametrize("name", STEPS)
def test_workers_hold_their_part_of_the_memory(name):
    """Together no less than the variables of one device, and each no more than all that it has."""
    made = partition(name, 4)
    whole = NUMPY.backend.measure_whole(Source(made.graph))
    held = sum(made.graph.tensors[tensor].size_bytes for tensor in made.training.boxes)
    assert sum(made.plan.worker_bytes) >= held
    assert max(made.plan.worker_bytes) < whole


def test_results_of_another_size_are_refused():
    made = partition("perceptron", 2)
    execution = made.training
    check_program(execution.program, made.plan.communication_bytes)
    wrong = type(execution)(
        execution.graph,
        execution.program,
        execution.attributes,
        execution.boxes,
        execution.result_boxes[::-1],
    )
    with pytest.raises(InternalError, match="The shards of a result have the shapes"):
        NUMPY.backend.check(wrong, made.choices)
