import pytest

from tests.numpy_engine.backend import NUMPY
from tests.numpy_engine.runs import (
    assert_results,
    check_run,
    compute_named,
    draw_values,
    partition,
    partition_graph,
)
from tests.numpy_engine.steps import STEPS
from tests.shared.random_plans import random_plan
from tofu.errors import InfeasibleError
from tofu.lowering import prepare_inference
from tofu.program import write_program

WORKERS = (2, 3, 4, 6, 8)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", STEPS)
def test_searched_and_random_plans(name, workers):
    searched = partition(name, workers)
    assert searched.plan.communication_bytes > 0
    check_run(searched, name)
    moved = set()
    for seed in range(2):
        plan = random_plan(searched, seed)
        made = partition(name, workers, plan=plan)
        check_run(made, name)
        moved.add(made.plan.communication_bytes)
    assert moved != {searched.plan.communication_bytes}


@pytest.mark.parametrize("algorithm", ["recursive", "allrow-greedy", "spartan", "equalchop", "icml18", "data-parallel"])
@pytest.mark.parametrize("name", ["perceptron", "convolutions"])
def test_other_algorithms(name, algorithm):
    made = partition(name, 4, algorithm=algorithm)
    assert made.plan.algorithm == algorithm
    check_run(made, name)


@pytest.mark.parametrize(
    ("name", "hint", "steps"),
    [
        ("perceptron", {"shares": "c"}, ("c", "c")),  # lowered: the maximum and the sum are reduced
        ("perceptron", {"layer0": "i"}, ("i", "i")),  # partial sums, and a bias that one worker adds
        ("updated perceptron", {"new_weight0": "i1"}, ("i1", "i1")),
        ("convolutions", {"convolve1": "x"}, ("x", "x")),  # halos, and no padding
        ("convolutions", {"d_convolve1": "x"}, ("x", "x")),  # overlapping parts are added
    ],
)
def test_hints(name, hint, steps):
    made = partition_graph(STEPS[name](), 4, hints=hint)
    (operator,) = hint
    assert made.plan.operators[operator] == steps
    check_run(made, name)


def test_a_memory_limit_trades_replicas_for_communication():
    tight = partition("wide perceptron", 4)
    limit = 2 * max(tight.plan.worker_bytes)
    loose = partition("wide perceptron", 4, memory_limit=limit)
    assert loose.plan.tensors["weight0"][0] is None
    assert loose.plan.communication_bytes < tight.plan.communication_bytes
    assert max(tight.plan.worker_bytes) < max(loose.plan.worker_bytes) <= limit
    check_run(loose, "wide perceptron")
    nothing = max(tight.plan.worker_bytes) // 2
    with pytest.raises(InfeasibleError, match="per worker"):
        partition("wide perceptron", 4, memory_limit=nothing)


@pytest.mark.parametrize("name", ["perceptron", "updated perceptron", "convolutions"])
def test_the_forward_program(name):
    made = partition(name, 4)
    choices = prepare_inference(made.graph, made.searched, NUMPY.front_end, "error")
    program = write_program(choices, inference=True)
    execution = NUMPY.backend.build(made.source, program)
    assert {node.phase.name for node in execution.program.nodes} == {"FORWARD"}
    assert len(execution.program.outputs) == len(made.graph.outputs)
    assert_results(execution, execution.run_whole(draw_values(name)), compute_named(name))
