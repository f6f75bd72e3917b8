from dataclasses import replace

import mxnet as mx
import numpy as np
import pytest

from tofu.compare.numbers import RunNumbers, compare_numbers, relative_error
from tofu.mxnet.compare.values import draw_values, find_positions


def language_model():
    tokens = mx.sym.Embedding(mx.sym.Variable("tokens"), input_dim=11, output_dim=6, name="embed")
    net = mx.sym.FullyConnected(mx.sym.Dropout(tokens, p=0.5, name="drop"), num_hidden=7, flatten=False, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax", preserve_shape="true")


def test_positions_are_drawn_within_bounds():
    symbol, shapes = language_model(), {"tokens": (40, 5)}
    assert find_positions(symbol, shapes, {}) == {"tokens": (0, 11), "softmax_label": (0, 7)}
    values = draw_values(symbol, shapes)
    assert set(np.unique(values["tokens"])) == set(range(11))
    assert set(np.unique(values["softmax_label"])) == set(range(7))
    assert 0.5 < values["fc_weight"].std() * np.sqrt(6) < 1.5


def test_positions_are_found_through_reshapes_and_casts():
    indices = mx.sym.Reshape(mx.sym.Cast(mx.sym.Variable("ids"), dtype="int32"), shape=(-1,))
    symbol = mx.sym.take(mx.sym.Variable("table"), indices, axis=0)
    assert find_positions(symbol, {"table": (9, 2), "ids": (3, 4)}, {}) == {"ids": (0, 9)}


def test_scales_are_drawn_around_one():
    symbol = mx.sym.BatchNorm(mx.sym.log(mx.sym.Variable("data")), name="bn")
    values = draw_values(symbol, {"data": (40, 5)})
    for name in ("data", "bn_gamma", "bn_moving_var"):
        assert 0.5 <= values[name].min() < values[name].max() <= 1.5
    assert -0.5 <= values["bn_beta"].min() < 0 < values["bn_beta"].max() <= 0.5


def test_wrong_and_missing_numbers_are_found():
    right = RunNumbers({"y": np.ones(3)}, {"w": np.full(3, 2.0), "b": np.full(3, 1e-16)}, {"mean": np.ones(2)})
    assert [difference.error for difference in compare_numbers(right, right)] == [0.0] * 4
    wrong = replace(right, gradients={"w": np.array([2.0, 2.0, 2.002]), "b": np.full(3, -1e-16)})
    found = {difference.name: difference for difference in compare_numbers(wrong, right)}
    assert found["w"].error == pytest.approx(1e-3)
    assert found["w"].digits == pytest.approx(3.0)
    assert found["b"].error < 1e-15
    assert relative_error(np.array([1.0, np.nan]), np.ones(2)) == np.inf
