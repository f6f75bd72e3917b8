import json
import re
from dataclasses import fields, replace

import mxnet as mx
import pytest

import tofu
from tests.models.plain import mlp
from tofu.planning import selection as planning
from tofu.planning.selection import AS_GIVEN, NO_PART_OF_THE_KEY
from tofu.planning.settings import Settings


@pytest.fixture
def model():
    return mlp()


@pytest.fixture
def text(model):
    return tofu.partition(model.symbol, 4, **model.shapes).plan.to_json()


def edit(text, **changes):
    return json.dumps({**json.loads(text), **changes})


def edit_tensors(text):
    tensors = {n: [0 if d is not None else None for d in s] for n, s in json.loads(text)["tensors"].items()}
    return edit(text, tensors=tensors)


search = planning._search


@pytest.fixture
def search_efforts(monkeypatch):
    made = []

    def count(problems, settings):
        made.append(settings.search_seconds)
        return search(problems, settings)

    monkeypatch.setattr(planning, "_search", count)
    return made


def test_a_longer_search_is_not_answered_by_a_shorter_one(model, search_efforts):
    for seconds in (0.0, 10.0, 10.0, 0.0):
        tofu.partition(model.symbol, 5, search_seconds=seconds, **model.shapes)
    assert search_efforts == [0.0, 10.0]


def test_every_setting_is_part_of_the_cache_key(model):
    partition = tofu.partition(model.symbol, 4, **model.shapes)
    problem, settings = partition.planned().searched.problem, Settings(4)
    other = object()
    for field in fields(Settings):
        same = planning._cache_key("", problem, settings) == planning._cache_key(
            "", problem, replace(settings, **{field.name: {"a": 0} if field.name == "hints" else other})
        )
        assert same == (field.name in NO_PART_OF_THE_KEY)


def test_a_changed_description_is_searched_again(model, descriptions, search_efforts):
    before = tofu.partition(model.symbol, 4, **model.shapes).plan
    search_efforts.clear()
    descriptions["FullyConnected"] = replace(descriptions["FullyConnected"], cache={})
    assert tofu.partition(model.symbol, 4, **model.shapes).plan == before
    assert search_efforts == [10.0]


def test_an_edited_plan_claims_nothing(model, text):
    assert tofu.partition(model.symbol, plan=text, **model.shapes).plan.optimality == "optimal"
    with pytest.warns(UserWarning, match="edited after it was saved"):
        plan = tofu.partition(model.symbol, plan=edit_tensors(text), **model.shapes).plan
    assert plan.optimality == AS_GIVEN
    value = json.loads(edit_tensors(text))
    del value["digest"]
    given = tofu.partition(model.symbol, plan=json.dumps(value), **model.shapes).plan
    assert (given.optimality, given.communication_bytes) == (AS_GIVEN, plan.communication_bytes)
    assert given.communication_bytes != json.loads(text)["communication_bytes"]


def test_a_plan_prints_the_choices_of_all_operators_and_tensors(text, check_golden):
    check_golden("mlp_plan.txt", f"{tofu.Plan.from_json(text)}\n")


def test_a_plan_with_wrong_bytes_claims_nothing(model, text):
    plan = replace(tofu.Plan.from_json(text), communication_bytes=1).sealed()
    applied = tofu.partition(model.symbol, plan=plan, **model.shapes).plan
    assert (applied.optimality, applied.communication_bytes) == (AS_GIVEN, json.loads(text)["communication_bytes"])


def test_an_edited_plan_in_a_symbol_file_is_not_remembered(model, tmp_path):
    symbol = tofu.partition(model.symbol, 4, **model.shapes)
    found = symbol.plan
    model_json = json.loads(symbol.tojson())
    value = json.loads(model_json["attrs"]["tofu"][1])
    value["plan"] = edit_tensors(value["plan"])
    model_json["attrs"]["tofu"][1] = json.dumps(value)
    with pytest.warns(UserWarning, match="edited after it was saved|changed since it was saved") as warned:
        loaded = mx.sym.load_json(json.dumps(model_json))
    assert [re.split("[:,]", str(each.message))[0] for each in warned] == [
        "The plan was edited after it was saved",
        "The partitioned symbol has changed since it was saved",
    ]
    loaded.plan_for(model.shapes)
    assert loaded.plan.optimality == AS_GIVEN
    assert loaded.plan.tensors != found.tensors
    assert tofu.partition(model.symbol, 4, **model.shapes).plan == found


BAD_VALUES = {
    "workers": [10**9, 4.0, True],
    "factors": [[4, 1], [-2, -2], "22"],
    "bandwidths": [[0, 1], [10**400, 1], [float("nan"), 1], [1]],
    "communication_bytes": [-5, 2**63, 1.5],
    "worker_bytes": [[1], [1, 2, 3, "4"]],
    "step_bytes": [[1]],
    "level_bytes": [[1, 2, 3]],
    "tensors": [[], {"data": [0, -1]}, {"data": [0, 10**30]}, {"data": 0}],
    "operators": [{"fc0": [0, 1]}],
    "kept": ["fc0", [5]],
    "inputs": [5, {"data": [12, 0]}],
    "algorithm": [5],
    "optimality": [None],
    "fingerprint": [[]],
    "digest": [5],
    "version": [10**4000],
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_impossible_values_in_plan_files_are_refused(text, name):
    edits = [{name: value} for value in BAD_VALUES[name]]
    if name == "workers":
        edits += [{"workers": 10**9 + 7, "factors": [10**9 + 7]}, {"workers": 1, "factors": []}]
    for changes in edits:
        with pytest.raises(tofu.PlanError):
            tofu.Plan.from_json(edit(text, **changes))


def test_texts_without_a_plan_are_refused():
    for broken in (
        *('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "[" * 1000, '{"format": "tofu-plan", "format": "tofu-plan"}'),
        *('{"workers": NaN}', '{"workers": 1' + "0" * 5000 + "}", '"\\ud800"', "", "null", "5", "\0"),
    ):
        with pytest.raises(tofu.PlanError):
            tofu.Plan.from_json(broken)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", None], ids=["bytes", "empty", "folder"])
def test_files_without_a_plan_are_refused(model, tmp_path, content):
    path = tmp_path / "plan.json"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(tofu.PlanError, match=r"plan\.json"):
        tofu.partition(model.symbol, plan=path, **model.shapes)


@pytest.mark.parametrize("workers", [4096, 65_521])
def test_too_many_workers_are_refused_quickly(workers):
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
    with pytest.raises(tofu.InfeasibleError):
        tofu.partition(symbol, workers, data=(16, 6))
