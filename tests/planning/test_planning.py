"""What a plan says of itself is true of what is applied, and what is remembered is remembered for what was asked."""

import json
from dataclasses import fields, replace

import mxnet as mx
import pytest

import tofu
from tests.models.plain import mlp
from tofu.plan import format_bytes
from tofu.planning import selection as planning
from tofu.planning.selection import AS_GIVEN, NO_PART_OF_THE_KEY
from tofu.planning.settings import Settings


@pytest.fixture
def model():
    return mlp()


@pytest.fixture
def text(model):
    return tofu.partition(model.symbol, 4, **model.shapes).plan.to_json()


def edited(text, **changes):
    return json.dumps({**json.loads(text), **changes})


def worse(text):
    """The text of a plan with everything split along its first dimension, as far as the plan says."""
    tensors = {n: [0 if d is not None else None for d in s] for n, s in json.loads(text)["tensors"].items()}
    return edited(text, tensors=tensors)


search = planning._search


@pytest.fixture
def searches(monkeypatch):
    """The effort of every search that is made."""
    made = []

    def count(problems, settings, progress):
        made.append(settings.search_seconds)
        return search(problems, settings, progress)

    monkeypatch.setattr(planning, "_search", count)
    return made


def test_a_longer_search_is_not_answered_by_a_shorter_one(model, searches):
    for seconds in (0.0, 10.0, 10.0, 0.0):
        tofu.partition(model.symbol, 5, search_seconds=seconds, **model.shapes)
    assert searches == [0.0, 10.0]


def test_every_setting_is_part_of_what_is_remembered(model):
    """A setting that is added later is, too."""
    partition = tofu.partition(model.symbol, 4, **model.shapes)
    problem, settings = partition.planned().searched.problem, Settings(4)
    other = object()
    for field in fields(Settings):
        same = planning._cache_key("", problem, settings) == planning._cache_key(
            "", problem, replace(settings, **{field.name: {"a": 0} if field.name == "hints" else other})
        )
        assert same == (field.name in NO_PART_OF_THE_KEY)


def test_a_description_that_changes_is_searched_anew(model, descriptions, searches):
    before = tofu.partition(model.symbol, 4, **model.shapes).plan
    searches.clear()
    descriptions["FullyConnected"] = replace(descriptions["FullyConnected"], cache={})
    assert tofu.partition(model.symbol, 4, **model.shapes).plan == before
    assert searches == [10.0]


def test_an_edited_plan_claims_nothing(model, text):
    assert tofu.partition(model.symbol, plan=text, **model.shapes).plan.optimality == "optimal"
    with pytest.warns(UserWarning, match="not as it was saved.*nothing is proved"):
        plan = tofu.partition(model.symbol, plan=worse(text), **model.shapes).plan
    assert plan.optimality == AS_GIVEN
    value = json.loads(worse(text))
    del value["digest"]
    given = tofu.partition(model.symbol, plan=json.dumps(value), **model.shapes).plan  # on purpose: no warning
    assert (given.optimality, given.communication_bytes) == (AS_GIVEN, plan.communication_bytes)
    assert given.communication_bytes != json.loads(text)["communication_bytes"]


def test_a_plan_prints_the_choices_of_all_operators_and_tensors(text, check_golden):
    check_golden("mlp_plan.txt", f"{tofu.Plan.from_json(text)}\n")


def test_an_edited_object_claims_nothing(model, text):
    plan = tofu.Plan.from_json(text)
    changed = replace(plan, tensors=tofu.Plan.from_json(json.dumps({**json.loads(worse(text)), "digest": ""})).tensors)
    for given in (changed, tofu.Plan.from_json(changed.to_json())):
        assert tofu.partition(model.symbol, plan=given, **model.shapes).plan.optimality == AS_GIVEN


def test_a_plan_that_moves_other_bytes_than_it_says_claims_nothing(model, text):
    plan = replace(tofu.Plan.from_json(text), communication_bytes=1).sealed()
    applied = tofu.partition(model.symbol, plan=plan, **model.shapes).plan
    assert (applied.optimality, applied.communication_bytes) == (AS_GIVEN, json.loads(text)["communication_bytes"])


def test_a_plan_for_other_shapes_claims_nothing_there(model):
    module = tofu.mod.Module(model.symbol, ngpus=2)
    module.bind([("data", (12, 17))], [("softmax_label", (12,))])
    assert module.plan.optimality == "optimal"
    module.reshape([("data", (8, 17))], [("softmax_label", (8,))])
    assert module.plan.optimality == AS_GIVEN


def test_an_edited_plan_in_a_symbols_file_stays_with_the_symbol(model, tmp_path):
    """It is not remembered for others of the same graph, which are searched."""
    symbol = tofu.partition(model.symbol, 4, **model.shapes)
    found = symbol.plan
    model_json = json.loads(symbol.tojson())
    value = json.loads(model_json["attrs"]["tofu"][1])
    value["plan"] = worse(value["plan"])
    model_json["attrs"]["tofu"][1] = json.dumps(value)
    with pytest.warns(UserWarning, match="not as it was saved") as warned:
        loaded = mx.sym.load_json(json.dumps(model_json))
    assert [str(one.message).split(":")[0] for one in warned] == [
        "The plan is not as it was saved",
        "The partitioned symbol has changed since it was saved",
    ]
    loaded.plan_for(model.shapes)
    assert loaded.plan.optimality == AS_GIVEN
    assert loaded.plan.tensors != found.tensors
    assert tofu.partition(model.symbol, 4, **model.shapes).plan == found


BAD_VALUES = [
    {"workers": 10**9},
    {"workers": 4.0},
    {"workers": "4"},
    {"workers": True},
    {"workers": -4},
    {"factors": [4, 1]},
    {"factors": [-2, -2]},
    {"factors": [2.0, 2]},
    {"factors": "22"},
    {"workers": 100_000, "factors": [100_000]},
    {"workers": 10**9 + 7, "factors": [10**9 + 7]},
    {"workers": 1, "factors": []},
    {"bandwidths": [-1, 1]},
    {"bandwidths": [0, 1]},
    {"bandwidths": [10**400, 1]},
    {"bandwidths": [1e-320, 1]},
    {"bandwidths": [float("nan"), 1]},
    {"bandwidths": [1]},
    {"communication_bytes": -5},
    {"communication_bytes": 2**63},
    {"communication_bytes": 1.5},
    {"worker_bytes": [1]},
    {"worker_bytes": [1, 2, 3, "4"]},
    {"step_bytes": [1]},
    {"level_bytes": [1, 2, 3]},
    {"tensors": []},
    {"tensors": {"data": [0.5, 0]}},
    {"tensors": {"data": [0, -1]}},
    {"tensors": {"data": [0, 10**30]}},
    {"tensors": {"data": 0}},
    {"operators": {"fc0": [0, 1]}},
    {"algorithm": 5},
    {"optimality": None},
    {"fingerprint": []},
    {"kept": "fc0"},
    {"kept": [5]},
    {"inputs": 5},
    {"inputs": {"data": [12, 0]}},
    {"digest": 5},
    {"version": 10**4000},
]


@pytest.mark.parametrize("changes", BAD_VALUES, ids=lambda changes: repr(changes)[:40])
def test_values_that_cannot_be_meant(text, changes):
    with pytest.raises(tofu.PlanError):
        tofu.Plan.from_json(edited(text, **changes))


@pytest.mark.parametrize(
    "broken",
    [
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
        "[" * 1000,
        '{"format": "tofu-plan", "format": "tofu-plan"}',
        '{"workers": NaN}',
        '{"workers": 1' + "0" * 5000 + "}",
        '"\\ud800"',
        "",
        "null",
        "5",
        "\0",
    ],
    ids=lambda text: text[:20],
)
def test_texts_that_are_no_plans(broken):
    with pytest.raises(tofu.PlanError):
        tofu.Plan.from_json(broken)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", None], ids=["bytes", "empty", "folder"])
def test_files_that_are_no_plans(model, tmp_path, content):
    path = tmp_path / "plan.json"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(tofu.PlanError, match=r"plan\.json"):
        tofu.partition(model.symbol, plan=path, **model.shapes)


def test_a_plan_of_a_hundred_thousand_levels_of_nesting_in_a_file(model, tmp_path):
    (tmp_path / "plan.json").write_text("[" * 100_000)
    with pytest.raises(tofu.PlanError, match=r"plan\.json: .*nested too deeply"):
        tofu.partition(model.symbol, plan=tmp_path / "plan.json", **model.shapes)


@pytest.mark.parametrize("workers", [4096, 65_521, 65_536])
def test_many_workers_and_their_orders(workers):
    """There are 16! orders of sixteen factors of 2, and one that differs."""
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
    with pytest.raises(tofu.InfeasibleError):
        tofu.partition(symbol, workers, data=(16, 6))


def test_a_plan_with_a_step_that_saves_bytes_is_saved_and_read(tmp_path):
    net = mx.sym.Deconvolution(
        mx.sym.Variable("data"), kernel=(4, 1), num_filter=1, stride=(2, 2), pad=(0, 1), name="up"
    )
    hints = {
        "data": (1, 3),
        "up": ("ci", "y1"),
        "up_backward": ("ci", "y1"),
        "up_output": (0, 0),
        "_head_grad_0": (0, 0),
    }
    symbol = tofu.partition(net, 4, hints=hints, data=(8, 3, 2, 2))
    plan = symbol.plan
    assert min(plan.step_bytes) < 0
    assert sum(plan.step_bytes) == plan.communication_bytes
    assert tofu.Plan.from_json(plan.to_json()) == replace(plan, search_seconds=0.0, search_bytes=0)
    again = mx.sym.load_json(symbol.tojson())
    again.simple_bind(mx.cpu(), data=(8, 3, 2, 2))
    assert again.plan.step_bytes == plan.step_bytes
    symbol.save_report(tmp_path / "plan.html")
    assert f"-{format_bytes(-min(plan.step_bytes))}" in (tmp_path / "plan.html").read_text()
