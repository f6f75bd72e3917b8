"""Plans and hints that cannot be followed: each error names the tensor or operator, what is asked of it and the remedy."""

import json
import re

import mxnet as mx
import pytest

import tofu
from tests.models.plain import mlp
from tests.mxnet.runtime.refusals import refuses


@pytest.fixture
def model():
    return mlp()


def test_plan_of_another_graph(model):
    plan = tofu.partition(model.symbol, 2, data=(12, 17)).plan
    other = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="other")
    with refuses(tofu.PlanError, "another graph", plan.fingerprint[:12], "the plan lacks other_weight", "search again"):
        tofu.partition(other, plan=plan, data=(12, 17))


def test_plan_of_another_batch(model):
    plan = tofu.partition(model.symbol, 2, data=(12, 17)).plan
    with refuses(tofu.PlanError, "data is \\(14, 17\\) here and \\(12, 17\\) in the plan", "leave plan= out"):
        tofu.partition(model.symbol, plan=plan, data=(14, 17))


def test_plan_in_a_file(model, tmp_path):
    plan = tofu.partition(model.symbol, 2, data=(12, 17)).plan
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json())
    for given in (path, str(path)):
        assert tofu.partition(model.symbol, plan=given, data=(12, 17)).plan == plan
    with refuses(tofu.PlanError, "path of a file", "No such file", "plam.json"):
        tofu.partition(model.symbol, plan="plam.json", data=(12, 17))


def test_a_plan_and_how_to_search_one(model):
    plan = tofu.partition(model.symbol, 2, data=(12, 17)).plan
    for name, value in (("algorithm", "recursive"), ("search_seconds", 1.0), ("topology", [1e9])):
        with refuses(tofu.PlanError, "plan= applies a plan", f"{name}="):
            tofu.partition(model.symbol, plan=plan, data=(12, 17), **{name: value})
    with refuses(tofu.PlanError, "partitioned already"):
        tofu.bind(tofu.partition(model.symbol, 2), plan=plan, data=(12, 17))


def test_plan_of_another_number_of_workers(model):
    plan = tofu.partition(model.symbol, 2, data=(12, 17)).plan
    with refuses(tofu.PlanError, "ngpus says 4", "plan says 2"):
        tofu.partition(model.symbol, 4, plan=plan, data=(12, 17))


def test_plan_of_another_version(model):
    value = json.loads(tofu.partition(model.symbol, 2, data=(12, 17)).plan.to_json())
    with refuses(tofu.PlanError, "version 99", "version 1"):
        tofu.Plan.from_json(json.dumps({**value, "version": 99}))


def test_plan_cut_short(model):
    text = tofu.partition(model.symbol, 2, data=(12, 17)).plan.to_json()
    with refuses(tofu.PlanError, "cut short"):
        tofu.Plan.from_json(text[: len(text) // 2])


def test_plan_with_a_key_missing(model):
    value = json.loads(tofu.partition(model.symbol, 2, data=(12, 17)).plan.to_json())
    del value["tensors"]
    with refuses(tofu.PlanError, "lacks", "tensors"):
        tofu.Plan.from_json(json.dumps(value))


def test_plan_that_splits_a_gradient_unlike_its_operator():
    """SliceChannel's gradient knows its operator's state, so both have to be split alike."""
    scale = mx.sym.Variable("scale", shape=(1, 6))
    parts = mx.sym.SliceChannel(mx.sym.broadcast_mul(mx.sym.Variable("data"), scale), num_outputs=2, name="parts")
    symbol = parts[0] * parts[1]
    plan = json.loads(tofu.partition(symbol, 2, data=(4, 6), cache=False).plan.to_json())
    del plan["digest"]
    name = "parts_backward"
    plan["operators"][name] = [None] if plan["operators"]["parts"] != [None] else ["i0"]
    with refuses(tofu.PlanError, f"operator {name} shares the choice of operator parts and must equal it"):
        tofu.partition(symbol, plan=json.dumps(plan), data=(4, 6))


@pytest.mark.parametrize("plan", [{"workers": 2}, 7, ["plan"]])
def test_a_plan_of_another_type(model, plan):
    with refuses(tofu.PlanError, "tofu.Plan", re.escape(repr(plan)), "path of a file"):
        tofu.partition(model.symbol, plan=plan, data=(12, 17))
    with refuses(tofu.PlanError, "tofu.Plan", "path of a file"):
        tofu.bind(model.symbol, plan=plan, data=(12, 17))


@pytest.mark.parametrize("hints", [["fc0_weight"], "fc0_weight", 0])
def test_hints_of_another_type(model, hints):
    with refuses(tofu.PlanError, "hints= maps names", re.escape(repr(hints))):
        tofu.partition(model.symbol, 2, hints=hints, data=(12, 17))


@pytest.mark.parametrize(
    ("hints", "fragments"),
    [
        ({"fc0_wieght": 0}, ["no such operator or tensor", "fc0_weight"]),
        ({"fc0_weight": 2}, ["2 is not a dimension", "\\(18, 17\\)"]),
        ({"fc0_weight": "0"}, ["'0' is not a dimension", "\\(18, 17\\) \\(0 to 1\\); dimensions are integers"]),
        ({"fc0": "channel"}, ["'channel' is not an axis"]),
        ({"fc0_weight": (0, 0)}, ["2 choices given", "factors"]),
        ({"softmax": "c"}, ["softmax", "'c'"]),
        ({"fc0_weight": "..."}, ["fc0_weight: '...' is text; write ..., without quotes"]),
    ],
)
def test_impossible_hint(model, hints, fragments):
    with refuses(tofu.PlanError, "cannot be honoured", *fragments):
        tofu.partition(model.symbol, 2, hints=hints, data=(12, 17))


def test_hint_that_does_not_divide(model):
    with refuses(tofu.PlanError, "fc1_weight", "extent 13"):
        tofu.partition(model.symbol, 16, hints={"fc1_weight": 0}, data=(12, 17))


def test_hints_that_leave_everything_whole():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    with refuses(
        tofu.InfeasibleError, "is split into 2 parts, which some could be", "axis k0 of fc is 20 long", "hints"
    ):
        tofu.partition(net, 2, data=(12, 20), for_training=False, hints={"fc": None})
