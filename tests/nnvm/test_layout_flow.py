"""Convolutions pass on blocks of channels if all readers take blocks; no number changes."""

import json

import mxnet as mx
import numpy as np
import pytest

from tests.models.plain import PlainModel
from tests.shared.training import bind_partitioned, largest_error, random_values, run_partitioned, run_single

WORKERS = 2
BY_BATCH = {f"{name}_{operator}": "b" for name in "ab" for operator in ("conv", "norm")}


def convolve(data: mx.sym.Symbol, name: str, channels: int) -> mx.sym.Symbol:
    return mx.sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=channels, no_bias=True, name=f"{name}_conv")


def normalize(data: mx.sym.Symbol, name: str) -> mx.sym.Symbol:
    data = mx.sym.BatchNorm(data, fix_gamma=False, name=f"{name}_norm")
    return mx.sym.Activation(data, act_type="tanh", name=f"{name}_act")


def two_layers(channels: int, is_read_outside: bool = False) -> PlainModel:
    first = convolve(mx.sym.Variable("data"), "a", channels)
    data = normalize(first, "a")
    data = normalize(convolve(data, "b", channels) + data, "b")
    data = mx.sym.FullyConnected(mx.sym.Flatten(data), num_hidden=5, name="fc")
    symbol = mx.sym.SoftmaxOutput(data, name="softmax")
    symbol = mx.sym.Group([symbol, mx.sym.BlockGrad(first)]) if is_read_outside else symbol
    return PlainModel(symbol, {"data": (4, 3, 8, 8)}, 5)


def list_free(executor) -> set[str]:
    nodes = json.loads(executor.partition.training.symbol.tojson())["nodes"]
    return {node["name"] for node in nodes if "__tofu_free_layout__" in node.get("attrs", {})}


@pytest.mark.parametrize("channels", [16, 32])
def test_layouts_flow_within_a_worker(channels):
    model = two_layers(channels)
    executor = bind_partitioned(model, WORKERS, "float32", hints=BY_BATCH)
    expected = {f"{name}@{w}" for name in ("a_conv", "b_conv", "b_conv_backward") for w in range(WORKERS)}
    assert list_free(executor) == expected
    values = random_values(model, "float32")
    step, _ = run_single(model, values, "float32")
    found, _, moved = run_partitioned(executor, values)
    assert largest_error(found, step) < 1e-5
    assert moved == executor.partition.plan.communication_bytes


def test_partial_blocks_stay_plain():
    assert list_free(bind_partitioned(two_layers(24), WORKERS, "float32", hints=BY_BATCH)) == set()


def test_fetched_tensors_stay_plain():
    executor = bind_partitioned(two_layers(32), WORKERS, "float32", hints=BY_BATCH | {"a_conv": "co", "a_norm": "c"})
    assert list_free(executor) == set()


def test_blocked_layouts_are_exact():
    """All numbers are whole and channels are a power of two, so sums are exact in any order."""
    values = random_values(two_layers(32), "float32")
    values["data"] = np.round(values["data"] * 8)
    values["a_conv_weight"] = np.round(values["a_conv_weight"] * 8)
    outputs = []
    for is_read_outside in (False, True):
        executor = bind_partitioned(two_layers(32, is_read_outside), WORKERS, "float32", hints=BY_BATCH)
        assert bool({"a_conv@0", "a_conv@1"} & list_free(executor)) != is_read_outside
        found, _, _ = run_partitioned(executor, values)
        outputs.append(next(iter(found.outputs.values())))
    np.testing.assert_array_equal(*outputs)
