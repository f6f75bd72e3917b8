import json
import random

import mxnet as mx
import pytest

import tofu
from tests.models.plain import mlp
from tofu.errors import PlanError

MODEL = mlp()
ASKED = [
    {"ngpus": 4},
    {"ngpus": 6},
    {"ngpus": 4, "algorithm": "recursive"},
    {"ngpus": 4, "algorithm": "data-parallel"},
    {"ngpus": 4, "hints": {"fc0_weight": 1}},
    {"ngpus": 4, "hints": {"fc0_weight": 0, "fc1_weight": (1, 0)}},
    {"ngpus": 4, "topology": [1e9, 5e10]},
    {"ngpus": 4, "topology": [5e10, 1e9]},
    {"ngpus": 4, "memory_limit": "1 GiB"},
    {"ngpus": 4, "for_training": False},
]


def plan_of(**asked):
    return tofu.partition(MODEL.symbol, **asked, **MODEL.shapes).plan


def list_decisions(plan):
    return (plan.factors, plan.bandwidths, plan.tensors, plan.operators, plan.communication_bytes, plan.optimality)


def test_remembered_plans_equal_searched_plans():
    searched = [plan_of(**asked, cache=False) for asked in ASKED]
    assert len({str(list_decisions(plan)) for plan in searched}) > 6
    order = [*range(len(ASKED))] * 2
    random.Random(0).shuffle(order)
    for number in order:
        assert list_decisions(plan_of(**ASKED[number])) == list_decisions(searched[number]), ASKED[number]


def test_a_given_plan_is_refused_above_the_memory_limit():
    plan = plan_of(ngpus=4)
    most = max(plan.worker_bytes)
    assert plan_of(plan=plan, memory_limit=most).tensors == plan.tensors
    with pytest.raises(PlanError, match="The plan needs"):
        plan_of(plan=plan, memory_limit=most - 1)


def test_hints_are_compared_with_every_step_of_a_given_plan():
    plan = plan_of(ngpus=4, hints={"fc0_weight": (0, 1)})
    assert plan_of(plan=plan, hints={"fc0_weight": (..., 1)}).tensors == plan.tensors
    for hint in ((1, 1), (..., 0), 1):
        with pytest.raises(PlanError, match=r"contradict each other.*\n.*fc0_weight"):
            plan_of(plan=plan, hints={"fc0_weight": hint})


def test_a_plan_that_splits_a_gradient_unlike_its_operator_is_refused():
    """The gradient of SliceChannel reads the operator's state, so both have to be split alike."""
    scale = mx.sym.Variable("scale", shape=(1, 6))
    parts = mx.sym.SliceChannel(mx.sym.broadcast_mul(mx.sym.Variable("data"), scale), num_outputs=2, name="parts")
    symbol = parts[0] * parts[1]
    plan = json.loads(tofu.partition(symbol, 2, data=(4, 6), cache=False).plan.to_json())
    del plan["digest"]
    plan["operators"]["parts_backward"] = [None] if plan["operators"]["parts"] != [None] else ["i0"]
    with pytest.raises(PlanError, match="operator parts_backward shares the choice of operator parts and must equal"):
        tofu.partition(symbol, plan=json.dumps(plan), data=(4, 6))
