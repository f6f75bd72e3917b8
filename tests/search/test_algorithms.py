"""`algorithm=` reaches the search, and `plan.optimality` says what is proved and no more."""

import re

import pytest

import tofu
from benchmarks.models import rnn, transformer
from tofu.errors import PlanError


@pytest.fixture(scope="module")
def model():
    return transformer(1, 64, 4, 4, length=16, vocabulary=64)


def plan_of(model, **asked):
    return tofu.partition(model.symbol, ngpus=8, **asked, **model.shapes).plan


def test_the_exact_plan_is_no_worse_and_proved(model):
    recursive, exact = plan_of(model, algorithm="recursive"), plan_of(model, algorithm="exact")
    assert (recursive.algorithm, recursive.optimality) == ("recursive", "each step optimal, given the steps before")
    assert (exact.algorithm, exact.optimality) == ("exact", "optimal")
    assert exact.communication_bytes < recursive.communication_bytes


def test_without_time_the_bound_is_stated(model):
    plan = plan_of(model, algorithm="exact", search_seconds=0, cache=False)
    assert re.fullmatch(r"optimal|within [\d.]+ % of a proven lower bound", plan.optimality)


def test_coalesced_steps_are_part_of_the_claim():
    plan = plan_of(rnn(1, 64, 8, time_steps=2, features=16, classes=16), algorithm="exact")
    assert plan.optimality == "optimal among plans that treat equal time steps alike"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"algorithm": "best"},
            "algorithm is 'best'; the searches are 'recursive' and 'exact', the baselines 'allrow-greedy', 'spartan', "
            "'equalchop', 'icml18', 'data-parallel', 'megatron'.",
        ),
        ({"search_seconds": -1}, "search_seconds is -1; it is the time that the exact search may take, in seconds."),
    ],
)
def test_what_there_is_not(model, asked, message):
    with pytest.raises(PlanError, match=re.escape(message)):
        plan_of(model, **asked)
