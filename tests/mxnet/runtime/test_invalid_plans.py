"""Errors for plans and hints that cannot be applied name the tensor or operator, the choice, and a remedy."""

import json
import re

import mxnet as mx
import pytest

import tofu
from tests.models.plain import mlp
from tests.mxnet.runtime.refusals import refuses

SYMBOL = mlp().symbol


@pytest.fixture(scope="module")
def plan():
    return tofu.partition(SYMBOL, 2, data=(12, 17)).plan


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        ({"data": (14, 17)}, ["data is \\(14, 17\\) here and \\(12, 17\\) in the plan", "leave plan= out"]),
        ({"ngpus": 4}, ["ngpus says 4", "plan says 2"]),
        ({"algorithm": "recursive"}, ["plan= applies a plan", "algorithm="]),
        ({"search_seconds": 1.0}, ["plan= applies a plan", "search_seconds="]),
        ({"topology": [1e9]}, ["plan= applies a plan", "topology="]),
        ({"plan": "plam.json"}, ["path of a file", "No such file", "plam.json"]),
        ({"plan": {"workers": 2}}, ["tofu.Plan", "{'workers': 2}", "path of a file"]),
        ({"plan": 7}, ["tofu.Plan", "7", "path of a file"]),
        ({"plan": ["plan"]}, ["tofu.Plan", "\\['plan'\\]", "path of a file"]),
    ],
    ids=str,
)
def test_plan_that_cannot_be_applied(plan, options, fragments):
    with refuses(tofu.PlanError, *fragments):
        tofu.partition(SYMBOL, **{"plan": plan, "data": (12, 17), **options})


def test_plan_of_another_graph(plan):
    other = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="other")
    with refuses(tofu.PlanError, "another graph", plan.fingerprint[:12], "the plan lacks other_weight", "search again"):
        tofu.partition(other, plan=plan, data=(12, 17))


def test_plan_of_a_bind(plan):
    with refuses(tofu.PlanError, "partitioned already"):
        tofu.bind(tofu.partition(SYMBOL, 2), plan=plan, data=(12, 17))
    with refuses(tofu.PlanError, "tofu.Plan", "path of a file"):
        tofu.bind(SYMBOL, plan=7, data=(12, 17))


def test_plan_in_a_file(plan, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json())
    for source in (path, str(path)):
        assert tofu.partition(SYMBOL, plan=source, data=(12, 17)).plan == plan


@pytest.mark.parametrize(
    ("damage", "fragments"),
    [
        (lambda text: json.dumps({**json.loads(text), "version": 99}), ["version 99", "version 1"]),
        (lambda text: text[: len(text) // 2], ["truncated"]),
        (lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != "tensors"}), ["lacks", "tensors"]),
    ],
    ids=["version", "cut short", "missing key"],
)
def test_damaged_plan(plan, damage, fragments):
    with refuses(tofu.PlanError, *fragments):
        tofu.Plan.from_json(damage(plan.to_json()))


def test_plan_that_splits_a_gradient_unlike_its_operator():
    """The gradient of SliceChannel reads the operator's state, so both have to be split alike."""
    scale = mx.sym.Variable("scale", shape=(1, 6))
    parts = mx.sym.SliceChannel(mx.sym.broadcast_mul(mx.sym.Variable("data"), scale), num_outputs=2, name="parts")
    symbol = parts[0] * parts[1]
    plan = json.loads(tofu.partition(symbol, 2, data=(4, 6), cache=False).plan.to_json())
    del plan["digest"]
    name = "parts_backward"
    plan["operators"][name] = [None] if plan["operators"]["parts"] != [None] else ["i0"]
    with refuses(tofu.PlanError, f"operator {name} shares the choice of operator parts and must equal it"):
        tofu.partition(symbol, plan=json.dumps(plan), data=(4, 6))


@pytest.mark.parametrize("hints", [["fc0_weight"], "fc0_weight", 0])
def test_hints_of_another_type(hints):
    with refuses(tofu.PlanError, "hints= maps names", re.escape(repr(hints))):
        tofu.partition(SYMBOL, 2, hints=hints, data=(12, 17))


@pytest.mark.parametrize(
    ("workers", "hints", "fragments"),
    [
        (2, {"fc0_wieght": 0}, ["no such operator or tensor", "fc0_weight"]),
        (2, {"fc0_weight": 2}, ["2 is not a dimension", "\\(18, 17\\)"]),
        (2, {"fc0_weight": "0"}, ["'0' is not a dimension", "\\(18, 17\\) \\(0 to 1\\); dimensions are integers"]),
        (2, {"fc0": "channel"}, ["'channel' is not an axis"]),
        (2, {"fc0_weight": (0, 0)}, ["2 choices given", "factors"]),
        (2, {"softmax": "c"}, ["softmax", "'c'"]),
        (2, {"fc0_weight": "..."}, ["fc0_weight: '...' is text; write ..., without quotes"]),
        (16, {"fc1_weight": 0}, ["fc1_weight", "extent 13"]),
    ],
    ids=str,
)
def test_hint_that_cannot_be_followed(workers, hints, fragments):
    with refuses(tofu.PlanError, "cannot be honoured", *fragments):
        tofu.partition(SYMBOL, workers, hints=hints, data=(12, 17))


def test_hints_that_replicate_everything():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    fragments = ["is split into 2 parts, which some could be", "axis k0 of fc is 20 long", "hints"]
    with refuses(tofu.InfeasibleError, *fragments):
        tofu.partition(net, 2, data=(12, 20), for_training=False, hints={"fc": None})
