"""Gradients that MXNet's kernels write in place. Some are wrong on one device, so the oracle is a graph without in-place writes."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.equality.comparison import compare_split
from tests.models.plain import PlainModel
from tofu.mxnet.compare.runs import run_step
from tofu.mxnet.verify.cases import load_cases
from tofu.mxnet.verify.kernels import compose

S = mx.sym
HEAVY = ("Convolution", "Embedding", "FullyConnected", "batch_dot", "dot")
DTYPES = ("float64", "float32")
SCALES = [0.5 + 0.1 * n for n in range(11)]  # 8 and more gradients are added up by a chain of sums
READERS = {
    "batch_dot": lambda y, w: S.batch_dot(S.expand_dims(y, 0), S.expand_dims(w, 0), transpose_b=True),
    "clip": lambda y, w: S.clip(y, -0.1, 0.1),
    "cumsum": lambda y, w: S.cumsum(y, axis=0),
    "dot": lambda y, w: S.dot(y, w, transpose_b=True),
    "dot_of_transposed": lambda y, w: S.dot(y, w, transpose_a=True),
    "flip": lambda y, w: S.flip(y, axis=1),
    "fully_connected": lambda y, w: S.FullyConnected(y, w, no_bias=True, num_hidden=9),
    "mean": lambda y, w: S.mean(y, axis=1),
    "norm": lambda y, w: S.norm(y, axis=1),
    "product": lambda y, w: y * w,
    "relu6": lambda y, w: S.clip(y * 3, 0, 1),
    "sequence_mask": lambda y, w: S.SequenceMask(y, use_sequence_length=False),
    "slice": lambda y, w: S.slice(y, begin=(1, 0), end=(6, 3)),
    "softmax": lambda y, w: S.softmax(y + w),
    "split": lambda y, w: S.split(y, num_outputs=2, axis=1)[0],
    "sum": lambda y, w: S.sum(y, axis=0),
    "tile": lambda y, w: S.tile(y, (2, 2)),
    "transpose": lambda y, w: S.transpose(y),
    "convolution": lambda y, w: S.Convolution(
        S.reshape(y, (9, 2, 4)), S.reshape(w, (9, 2, 4)), no_bias=True, kernel=(4,), num_filter=9
    ),
    "embedding": lambda y, w: S.Embedding(S.BlockGrad(S.floor(w)), y, input_dim=9, output_dim=8, dtype="float64"),
}


def compare_gradients(expected, found, tolerance):
    for name, gradient in expected.items():
        error = np.abs(found[name] - gradient).max() / max(np.abs(gradient).max(), 1e-3)
        assert error < tolerance, name


def find_gradients(symbol, values, dtype, asked=None):
    asked = values if asked is None else asked
    requests = {name: "write" if name in asked else "null" for name in values}
    shapes = {name: value.shape for name, value in values.items()}
    values = {name: value.astype(dtype) for name, value in values.items()}
    return run_step(symbol, shapes, values, requests).training.gradients


@pytest.mark.parametrize(
    ("reader", "dtype"),
    [
        *((reader, "float64") for reader in READERS),
        ("convolution", "float32"),
        ("dot", "float32"),
        ("fully_connected", "float32"),
    ],
)
def test_sums_of_many_gradients(reader, dtype):
    """A tensor and a parameter have eleven readers."""
    r = np.random.RandomState(0)
    values = {"data": r.uniform(-1, 1, (9, 8)), "weight": r.uniform(0.5, 1.5, (9, 8))}

    def build(scales):
        y, w = S.tanh(S.var("data")), S.var("weight")
        return S.Group([S.MakeLoss(S.sin(READERS[reader](y, w)) * scale) for scale in scales])

    whole = build([sum(SCALES)])
    values = {name: values[name] for name in whole.list_arguments()}
    expected = find_gradients(whole, values, dtype)
    found = find_gradients(tofu.partition(build(SCALES), 3), values, dtype)
    compare_gradients(expected, found, 1e-13 if dtype == "float64" else 1e-5)


@pytest.mark.parametrize(
    ("case", "dtype"),
    [(case, DTYPES[n % 2]) for n, case in enumerate(c for c in load_cases() if c.op in HEAVY)],
    ids=str,
)
def test_sums_of_heavy_gradients(case, dtype):
    values = {f"input{n}": value.astype(dtype) for n, value in enumerate(case.draw_inputs())}
    attributes = {name: dtype if name == "dtype" else str(value) for name, value in case.attributes.items()}
    variables = {name: S.var(name) for name in values}

    def build(scales):
        heads = [compose(case.op, attributes, len(values))[0](**variables) for _ in scales]
        return S.Group([S.MakeLoss(S.sin(head) * scale) for head, scale in zip(heads, scales, strict=True)])

    asked = [name for name in values if case.wrt is None or int(name.removeprefix("input")) in case.wrt]
    expected = find_gradients(build([sum(SCALES)]), values, dtype, asked)
    found = find_gradients(tofu.partition(build(SCALES), 2), values, dtype, asked)
    compare_gradients(expected, found, 1e-12 if dtype == "float64" else 1e-4)


def build_chain(length, data="data"):
    y, weight = S.var(data), S.var(f"{data}_weight")
    for n in range(length):
        y = S.FullyConnected(y, weight, num_hidden=2, no_bias=True, name=f"{data}_fc{n}")
    return S.MakeLoss(S.sin(y))


def test_a_partial_sum_read_by_another_worker():
    """Another worker fetches a partial sum after the next kernel could have added to it."""
    r = np.random.RandomState(0)
    values = {"data": r.uniform(0.5, 1.5, (8, 2)), "data_weight": r.uniform(0.1, 0.9, (2, 2))}
    hints = {"sum_grad_4_output": [None, 0, 1], "sum_grad_7_output": [None, None, 0]}
    hints |= {"data_fc2_backward_output1": [1, 0, None]}
    expected = find_gradients(build_chain(8), values, "float64")
    found = find_gradients(tofu.partition(build_chain(8), 8, hints=hints), values, "float64")
    compare_gradients(expected, found, 1e-12)


def test_random_plans_of_long_sums():
    model = PlainModel(S.Group([build_chain(8), build_chain(11, "other")]), {"data": (16, 2), "other": (16, 2)}, 1)
    compare_split(model, 8, randoms=10)


@pytest.mark.parametrize(("mode", "workers"), [("gru", 2), ("rnn_tanh", 4), ("rnn_relu", 2), ("lstm", 4)])
def test_stacked_recurrence_beside_others(mode, workers):
    """MXNet's kernels of several layers write over the gradient of the last layer's output."""
    data, parameters, state = S.var("data"), S.var("parameters"), S.var("state")
    states = [state, S.var("cell")] if mode == "lstm" else [state]
    layers = S.RNN(data, parameters, *states, mode=mode, num_layers=2, state_size=3)
    gates = {"gru": 3, "lstm": 4}.get(mode, 1)
    shapes = {"data": (5, 4, 3), "parameters": (gates * 2 * (3 * 3 + 3 * 3 + 2 * 3),), "state": (2, 4, 3)}
    shapes |= {"cell": (2, 4, 3)} if mode == "lstm" else {}
    r = np.random.RandomState(3)
    values = {name: r.uniform(-1, 1, shape) for name, shape in shapes.items()}
    # The factor gives the recurrence a gradient with one reader, so that one device is right.
    expected = find_gradients(S.MakeLoss(S.sin(layers * 1.0 + data)), values, "float64")
    found = find_gradients(tofu.partition(S.MakeLoss(S.sin(layers + data)), workers), values, "float64")
    compare_gradients(expected, found, 1e-11)


def test_a_recurrence_leaves_head_gradients_unchanged():
    layers = S.RNN(S.var("data"), S.var("parameters"), S.var("state"), mode="gru", num_layers=2, state_size=3)
    shapes = {"data": (5, 4, 3), "parameters": (144,), "state": (2, 4, 3)}
    executor = tofu.partition(layers, 2).simple_bind(mx.cpu(), grad_req="write", **shapes)
    r = np.random.RandomState(4)
    for name, shape in shapes.items():
        executor.arg_dict[name][:] = r.uniform(-1, 1, shape)
    given = mx.nd.array(r.uniform(-1, 1, (5, 4, 3)))
    executor.forward(is_train=True)
    executor.backward([given])
    mx.nd.waitall()
    kept = executor.sharded.variables["_head_grad_0"].gather()
    np.testing.assert_array_equal(kept.asnumpy(), given.asnumpy())


def test_an_update_that_changes_its_gradient():
    """MXNet's kernel scales and clips the gradient in place, but other workers read it."""
    attributes = {"clip_gradient": "0.25", "eta": "0.5", "lr": "0.125", "wd": "0.25"}
    update = compose("_adamw_update", attributes, 5)
    shapes = {f"input{n}": (6, 3) for n in range(4)} | {"input4": (1,), "other": (8, 8)}
    update = S.Group([update, S.sin(S.var("other"))])
    r = np.random.RandomState(5)
    values = {name: r.uniform(0.1, 1, shape).astype("float32") for name, shape in shapes.items()}
    results = []
    for hints in (None, {"operator": ["i0", None], "input1": [None, 0]}):
        symbol = update if hints is None else tofu.partition(update, 4, hints=hints)
        executor = symbol.simple_bind(mx.cpu(), grad_req="null", stype_dict=dict.fromkeys(shapes, "default"), **shapes)
        for name, array in (executor.arg_dict | executor.aux_dict).items():
            array[:] = values[name]
        for _ in range(2):
            executor.arg_dict["input1"][:] = values["input1"]
            output, _ = executor.forward(is_train=True)
        results.append([output.asnumpy(), *(state.asnumpy() for state in executor.aux_dict.values())])
        assert len(executor.aux_dict) == 2
    for found, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_gradient_that_overwrites_positions():
    """The gradient of SpatialTransformer overwrites the positions that it reads. Two workers read each of them."""
    options = {"target_shape": (4, 4), "transform_type": "affine", "sampler_type": "bilinear"}
    symbol = S.SpatialTransformer(S.var("data"), S.var("loc"), name="warp", **options)
    r = np.random.RandomState(6)
    values = {"data": r.uniform(-1, 1, (4, 6, 5, 5)), "loc": r.uniform(-0.6, 0.6, (4, 6))}
    symbol = S.MakeLoss(S.sin(symbol))
    expected = find_gradients(symbol, values, "float64")
    hints = {"warp_backward": ["b", "c"], "warp_output2": [None, 0]}
    for _ in range(5):
        found = find_gradients(tofu.partition(symbol, 4, hints=hints), values, "float64")
        compare_gradients(expected, found, 1e-11)


def test_learned_slope():
    """PReLU's kernel reads the output's gradient after it has written the data's gradient."""
    values = {"data": np.random.RandomState(1).uniform(-1, 1, (8, 4, 6)), "slope": np.array([0.1, 0.2, 0.3, 0.4])}
    data, slope = S.tanh(S.var("data")), S.var("slope")
    symbol = S.MakeLoss(S.sin(S.LeakyReLU(data, slope, act_type="prelu")))
    found = find_gradients(tofu.partition(symbol, 4), values, "float64")
    y, at = np.tanh(values["data"]), values["slope"][:, None]
    out_gradient = np.cos(np.where(y > 0, y, at * y))
    np.testing.assert_allclose(found["slope"], (out_gradient * np.minimum(y, 0)).sum(axis=(0, 2)), rtol=1e-6)
    np.testing.assert_allclose(found["data"], out_gradient * np.where(y > 0, 1, at) * (1 - y**2), rtol=1e-6)


def test_hard_sigmoid_beside_others():
    """MXNet declares the gradient an identity, which may share memory with a gradient that others read."""
    values = {"data": np.random.RandomState(2).uniform(-1, 1, (6, 4)), "weight": np.eye(4)}
    data = S.var("data")
    dense = S.FullyConnected(data, S.var("weight"), no_bias=True, num_hidden=4)
    symbol = S.MakeLoss(S.sin(dense + S.hard_sigmoid(data)))
    found = find_gradients(tofu.partition(symbol, 3), values, "float64")
    x = values["data"]
    out_gradient = np.cos(x + 0.2 * x + 0.5)
    np.testing.assert_allclose(found["weight"], out_gradient.T @ x, rtol=1e-6)
    np.testing.assert_allclose(found["data"], 1.2 * out_gradient, rtol=1e-6)


@pytest.mark.parametrize(
    ("axes", "dimensions"), [((None, "e"), (1, None)), (("e", None), (0, 1)), (("e", "e"), (1, 1))]
)
def test_gradients_of_indices_are_not_computed(axes, dimensions):
    """MXNet refuses to compute the gradient of an Embedding's indices."""
    symbol = S.MakeLoss(S.sin(S.Embedding(S.var("indices"), S.var("weight"), input_dim=4, output_dim=4, name="embed")))
    values = {"indices": np.arange(8.0) % 3, "weight": np.random.RandomState(5).uniform(-1, 1, (4, 4))}
    hints = {"embed_backward": list(axes), "weight": list(dimensions)}
    expected = find_gradients(symbol, values, "float32", ["weight"])["weight"]
    found = find_gradients(tofu.partition(symbol, 4, hints=hints), values, "float32", ["weight"])["weight"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
