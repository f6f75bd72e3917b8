import copy
import pickle
from dataclasses import fields

import mxnet as mx
import pytest

import tofu
from tests.models.plain import mlp
from tofu.mxnet.runtime.executor.executor import Executor
from tofu.mxnet.settings import MXNetSettings


def test_copies_pickles_and_files_stay_partitioned(tmp_path):
    symbol = tofu.partition(mlp().symbol, 4, data=(12, 17))
    path = str(tmp_path / "model-symbol.json")
    symbol.save(path)
    copies = [copy.copy(symbol), copy.deepcopy(symbol), pickle.loads(pickle.dumps(symbol))]
    plan = symbol.plan
    for again in [*copies, mx.sym.load(path), mx.sym.load_json(symbol.tojson())]:
        assert again.current_plan in (None, plan)
        assert tofu.partition(again, plan=plan, data=(12, 17)).plan == plan
        executor = again.simple_bind(mx.cpu(), data=(12, 17))
        assert isinstance(executor, Executor)
        assert executor.plan.workers == 4


ASKED = [
    {"hints": {"fc0_weight": (..., 1), "fc1_weight": 0}},
    {"algorithm": "recursive"},
    {"search_seconds": 3.0},
    {"topology": [1e9, 5e10]},
    {"memory_limit": 10**9},
    {"replicate": "free"},
    {"unroll": "cheaper"},
    {"undescribed": "replicate"},
    {"on_infeasible": "replicate"},
    {"for_training": False},
    {"cache": False},
]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_files_hold_all_settings(asked):
    elsewhere = {"workers", "plan", "strict_plan", "arrangement", "saved"}
    assert {name for asked in ASKED for name in asked} | elsewhere == {field.name for field in fields(MXNetSettings)}
    symbol = tofu.partition(mlp().symbol, 4, **asked)
    found = mx.sym.load_json(symbol.tojson()).settings
    for name in asked:
        assert str(getattr(found, name)).replace("[", "(").replace("]", ")") == str(getattr(symbol.settings, name))
        assert getattr(found, name) != getattr(MXNetSettings(4), name)


def test_plain_symbols_load_as_before(tmp_path):
    path = str(tmp_path / "plain.json")
    mlp().symbol.save(path)
    assert type(mx.sym.load(path)) is mx.sym.Symbol
