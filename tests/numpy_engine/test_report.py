import os
import subprocess
import sys

from tests.numpy_engine.runs import partition

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
