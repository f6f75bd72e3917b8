"""RNN operators whose own kernels compute wrong gradients: several layers, and dropout between layers."""

import mxnet as mx
import numpy as np
import pytest

import tofu

TIME, BATCH, WIDTH, UNITS = 3, 4, 3, 2


def recurrence(mode, layers, units=UNITS, **attributes):
    names = ("data", "parameters", "state", "cell")[: 4 if mode == "lstm" else 3]
    variables = map(mx.sym.Variable, names)
    return mx.sym.RNN(*variables, mode=mode, num_layers=layers, state_size=units, name="rnn", **attributes)


def draw(symbol, data_shape=(TIME, BATCH, WIDTH)):
    shapes = symbol.infer_shape(data=data_shape)[0]
    generator = np.random.RandomState(0)
    return {
        name: generator.uniform(-0.7, 0.7, shape) for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }


def differentiate(loss, values, step=1e-6):
    """Return the gradients of a function by central differences."""
    gradients = {}
    for name, value in values.items():
        gradient = gradients[name] = np.zeros(value.shape)
        for position in np.ndindex(value.shape):
            low, high = ({**values, name: value.copy()} for _ in range(2))
            low[name][position] -= step
            high[name][position] += step
            gradient[position] = (loss(high) - loss(low)) / (2 * step)
    return gradients


@pytest.mark.parametrize("mode", ["rnn_tanh", "lstm", "gru"])
def test_gradients_under_dropout_equal_central_differences(mode):
    symbol = recurrence(mode, 2, p=0.5)
    values = draw(symbol)
    head = np.random.RandomState(1).uniform(-1, 1, (TIME, BATCH, UNITS))
    arguments, gradients = ({n: mx.nd.zeros(v.shape, dtype="float64") for n, v in values.items()} for _ in range(2))
    executor = tofu.partition(symbol, 2).bind(mx.cpu(), arguments, gradients)

    def loss(given):
        mx.random.seed(3)
        for name, value in given.items():
            arguments[name][:] = mx.nd.array(value, dtype="float64")
        return (executor.forward(is_train=True)[0].asnumpy() * head).sum()

    loss(values)
    executor.backward([mx.nd.array(head, dtype="float64")])
    found = {name: gradient.asnumpy() for name, gradient in gradients.items()}
    for name, expected in differentiate(loss, values).items():
        np.testing.assert_allclose(found[name], expected, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_outputs_between_layers_are_dropped_with_probability_p(dtype):
    """The first layer returns ones, and the second one returns its input."""
    units, shape = 16, (8, 16, 1)
    symbol = recurrence("rnn_relu", 2, units=units, p=0.25)
    values = {name: np.zeros(value.shape) for name, value in draw(symbol, shape).items()}
    first_size, state_size = units + units * units, units * units
    values["parameters"][first_size : first_size + state_size] = np.eye(units).ravel()
    values["parameters"][first_size + 2 * state_size :][:units] = 1
    arguments = {name: mx.nd.array(value, dtype=dtype) for name, value in values.items()}
    gradients = {name: mx.nd.zeros(value.shape, dtype=dtype) for name, value in values.items()}
    executor = tofu.partition(symbol, 2).bind(mx.cpu(), arguments, gradients)
    output = executor.forward(is_train=True)[0].asnumpy()
    np.testing.assert_allclose(np.unique(output), [0, 1 / 0.75], rtol=1e-6)
    assert 0.2 < (output == 0).mean() < 0.3
    assert (executor.forward(is_train=False)[0].asnumpy() == 1).all()


@pytest.mark.parametrize(
    ("symbol", "options", "is_split"),
    [
        (recurrence("rnn_tanh", 3), {}, True),
        (recurrence("rnn_relu", 3, state_outputs=True), {}, True),
        (recurrence("rnn_tanh", 2), {}, False),
        (recurrence("gru", 4), {}, False),
        (recurrence("gru", 2, p=0.1), {}, True),
        (recurrence("lstm", 1, p=0.1), {}, False),
        (recurrence("rnn_tanh", 3, p=0.1), {"for_training": False}, False),
    ],
)
def test_only_wrong_kernels_are_split(symbol, options, is_split):
    partitioned = tofu.partition(symbol, 2, hints={"rnn": "b"}, data=(TIME, BATCH, WIDTH), **options)
    assert ("rnn_layer0" in partitioned.plan.operators) == is_split
    assert "rnn" in partitioned.plan.operators  # the last layer keeps the name
    assert partitioned.list_outputs() == symbol.list_outputs()


def test_rectifiers_are_split_beside_cells():
    data = mx.sym.Variable("data")
    names = ("parameters", "state")
    nets = [
        mx.sym.RNN(data, *(mx.sym.Variable(f"{mode}_{name}") for name in names), mode=mode, num_layers=3, state_size=2,
                   name=mode)
        for mode in ("rnn_tanh", "rnn_relu")
    ]  # fmt: skip
    plan = tofu.partition(mx.sym.Group(nets), 2, unroll="always", data=(TIME, BATCH, WIDTH)).plan
    assert "rnn_relu_layer1" in plan.operators
    assert "rnn_tanh_layer1" not in plan.operators


@pytest.mark.parametrize("mode", ["rnn_tanh", "rnn_relu", "lstm"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_verification_compares_all_layers(mode, dtype):
    options = {"p": 0.5} if mode == "lstm" else {}
    agreement = tofu.partition(recurrence(mode, 3, **options), 2, data=(TIME, BATCH, WIDTH)).verify(dtype=dtype)
    assert agreement.agrees
    assert not agreement.excused
    mistake = "one device has wrong numbers in parameters, state: MXNet's own kernel of RNN"
    is_corrected = any(note.startswith(mistake) for note in agreement.notes)
    assert is_corrected == (dtype == "float64" and mode != "lstm")
    assert not any(note.startswith("planned again") for note in agreement.notes)
