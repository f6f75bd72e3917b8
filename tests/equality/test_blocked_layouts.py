"""Random convolutional networks in float32 whose channels fill oneDNN's blocks equal one device in float64, up to rounding."""

from __future__ import annotations

import random

import mxnet as mx
import pytest

from tests.models.plain import PlainModel
from tests.shared.random_plans import random_plan
from tests.shared.training import bind_partitioned, largest_error, random_values, run_partitioned, run_single

TOLERANCE = 5e-4


def convolve(data, channels, name, kernel=3):
    pad = (kernel // 2, kernel // 2)
    return mx.sym.Convolution(data, kernel=(kernel, kernel), pad=pad, num_filter=channels, name=name)


def normalize(data, name):
    return mx.sym.BatchNorm(data, fix_gamma=False, eps=1e-3, name=name)


def grow(data, channels, name, r):
    width = 2 * channels
    pool = {"kernel": (3, 3), "pad": (1, 1), "pool_type": r.choice(["max", "avg"])}
    gate = mx.sym.Pooling(data, global_pool=True, pool_type="avg", kernel=(1, 1))
    halves = mx.sym.SliceChannel(convolve(data, width, f"{name}_wide", 1), num_outputs=2, name=f"{name}_halves")
    kinds = [
        normalize(data, name),
        mx.sym.Activation(data, act_type=r.choice(["relu", "tanh"])),
        mx.sym.LeakyReLU(data, slope=0.1),
        data + normalize(convolve(data, channels, f"{name}_conv"), name),
        mx.sym.add_n(data, convolve(data, channels, name), data),
        convolve(mx.sym.concat(data, convolve(data, channels, f"{name}_conv", 1), dim=1), channels, name),
        mx.sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=channels, num_group=channels, name=name),
        mx.sym.Pooling(data, **pool),
        mx.sym.broadcast_mul(data, mx.sym.sigmoid(gate)),
        halves[0] * halves[1],
    ]
    return r.choice(kinds)


def random_network(seed) -> PlainModel:
    r = random.Random(seed)
    channels, size = r.choice([16, 32, 48]), r.choice([8, 9, 10])
    data = convolve(mx.sym.Variable("data"), channels, "stem")
    for n in range(r.randint(4, 8)):
        data = grow(data, channels, f"layer{n}", r)
    data = mx.sym.Pooling(data, global_pool=True, pool_type="avg", kernel=(1, 1))
    data = mx.sym.FullyConnected(mx.sym.Flatten(data), num_hidden=5, name="fc")
    return PlainModel(mx.sym.SoftmaxOutput(data, name="softmax"), {"data": (r.choice([4, 8]), 3, size, size)}, 5)


@pytest.mark.parametrize("seed", range(6))
def test_random_networks_equal_one_device(seed):
    model = random_network(seed)
    values = random_values(model, "float32", seed)
    double = {name: value.astype("float64") for name, value in values.items()}
    expected, _ = run_single(model, double, "float64")
    workers = (2, 4, 8)[seed % 3]
    default = bind_partitioned(model, workers, "float32")
    for executor in (default, bind_partitioned(model, workers, "float32", random_plan(default.partition, seed))):
        found, _, moved = run_partitioned(executor, values)
        assert largest_error(found, expected) < TOLERANCE
        assert moved == executor.partition.plan.communication_bytes


def test_random_networks_use_blocked_layouts():
    symbols = [bind_partitioned(random_network(seed), 2, "float32").partition.training.symbol for seed in range(4)]
    assert sum("__tofu_free_layout__" in symbol.tojson() for symbol in symbols) >= 2
