"""Plans that are not searched anew, remembered ones and those from outside, obey all that is asked of them."""

import random

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


def said(plan):
    """What a plan decides and claims."""
    return (plan.factors, plan.bandwidths, plan.tensors, plan.operators, plan.communication_bytes, plan.optimality)


def test_a_remembered_plan_is_the_one_that_a_search_would_find():
    """Whatever was asked for before, and in whatever order."""
    searched = [plan_of(**asked, cache=False) for asked in ASKED]
    assert len({str(said(plan)) for plan in searched}) > 6
    order = [*range(len(ASKED))] * 2
    random.Random(0).shuffle(order)
    for number in order:
        assert said(plan_of(**ASKED[number])) == said(searched[number]), ASKED[number]


def test_a_limit_is_the_most_that_a_plan_may_need():
    plan = plan_of(ngpus=4)
    most = max(plan.worker_bytes)
    assert plan_of(plan=plan, memory_limit=most).tensors == plan.tensors
    with pytest.raises(PlanError, match="The plan needs"):
        plan_of(plan=plan, memory_limit=most - 1)


def test_hints_hold_at_every_step_of_a_plan():
    plan = plan_of(ngpus=4, hints={"fc0_weight": (0, 1)})
    for hint in ((0, 1), (..., 1), (0, ...)):
        assert plan_of(plan=plan, hints={"fc0_weight": hint}).tensors == plan.tensors
    for hint in ((1, 1), (0, 0), (..., 0), 1):
        with pytest.raises(PlanError, match=r"contradict each other.*\n.*fc0_weight"):
            plan_of(plan=plan, hints={"fc0_weight": hint})
