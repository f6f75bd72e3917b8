import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.equality.comparison import compare_split, list_operators
from tests.models.plain import PlainModel
from tests.shared.training import all_shapes
from tofu.plan import Plan

TIME, BATCH, WIDTH, UNITS = 3, 4, 5, 6


def recurrence(mode, layers=2, time=TIME, batch=BATCH, units=UNITS, **attributes) -> PlainModel:
    """A fused RNN whose initial states have inferred shapes.

    The gradient of the data is requested. Otherwise, MXNet computes the other gradients wrong.
    """
    data = mx.sym.Variable("data", dtype="float64")
    data = mx.sym.broadcast_mul(data, mx.sym.Variable("scale_weight", shape=(1, 1, WIDTH)))
    states = layers * (2 if attributes.get("bidirectional") else 1)
    begin = [mx.sym.zeros((states, 0, units), dtype="float64") for _ in range(2 if mode == "lstm" else 1)]
    parameters = mx.sym.Variable("rnn_parameters")
    net = mx.sym.RNN(data, parameters, *begin, state_size=units, num_layers=layers, mode=mode, name="rnn", **attributes)
    losses = [mx.sym.MakeLoss(mx.sym.sin(output)) for output in net]
    return PlainModel(mx.sym.Group(losses), {"data": (time, batch, WIDTH)}, 2)


def draw(model):
    rng = np.random.RandomState(0)
    return {name: rng.uniform(-0.5, 0.5, shape) for name, shape in all_shapes(model).items()}


@pytest.mark.parametrize(
    ("mode", "attributes"),
    [
        ("lstm", {"state_outputs": True}),
        ("lstm", {"bidirectional": True}),
        ("gru", {"layers": 1, "state_outputs": True}),
        ("gru", {"layers": 1, "bidirectional": True}),
        ("rnn_tanh", {"layers": 1, "time": 1}),
    ],
    ids=str,
)
def test_unrolled_cells_equal_one_device(mode, attributes):
    model = recurrence(mode, **attributes)
    executor = compare_split(model, 3, steps=2, values=draw(model), randoms=1, unroll="always")
    assert "RNN" not in list_operators(executor)


def test_cheaper_takes_the_form_that_moves_fewer_bytes():
    moved = {}
    for units, time in ((24, 2), (2, 6)):
        model = recurrence("lstm", layers=1, time=time, units=units)
        moved[units] = {
            unroll: tofu.partition(model.symbol, 2, unroll=unroll, **model.shapes).plan.communication_bytes
            for unroll in ("never", "always", "cheaper")
        }
        assert moved[units]["cheaper"] == min(moved[units].values())
    assert moved[24]["always"] < moved[24]["never"]
    assert moved[2]["never"] < moved[2]["always"]


def test_units_are_split_for_a_single_sample():
    model = recurrence("gru", layers=1, batch=1)
    assert tofu.partition(model.symbol, 2, **model.shapes).plan.operators["rnn"] == (None,)
    compare_split(model, 2, steps=2, values=draw(model), unroll="always")


def test_a_plan_is_applied_to_its_own_form():
    model = recurrence("lstm", layers=1)
    for when in ("never", "always"):
        plan = tofu.partition(model.symbol, 2, unroll=when, **model.shapes).plan
        again = tofu.partition(model.symbol, 2, unroll="cheaper", plan=Plan.from_json(plan.to_json()), **model.shapes)
        assert again.plan.operators == plan.operators


def test_hints_choose_the_form():
    model = recurrence("lstm", layers=1)
    cells = tofu.partition(model.symbol, 2, unroll="always", **model.shapes).plan
    cell = next(name for name in cells.operators if name.startswith("rnn_fullyconnected"))
    for hints, is_fused in (({"rnn": "b"}, True), ({cell: cells.operators[cell][0]}, False)):
        plan = tofu.partition(model.symbol, 2, unroll="cheaper", hints=hints, **model.shapes).plan
        assert ("rnn" in plan.operators) == is_fused


@pytest.mark.parametrize("attributes", [{"mode": "rnn_relu"}, {"mode": "lstm", "projection_size": 3}], ids=str)
def test_unsupported_cells_stay_fused(attributes):
    mode = attributes.pop("mode")
    data, parameters = mx.sym.Variable("data"), mx.sym.Variable("parameters")
    states = [mx.sym.Variable("state"), mx.sym.Variable("cells")][: 2 if mode == "lstm" else 1]
    net = mx.sym.RNN(data, parameters, *states, state_size=4, num_layers=1, mode=mode, name="rnn", **attributes)
    plan = tofu.partition(net, 2, unroll="always", data=(TIME, BATCH, WIDTH)).plan
    assert plan.operators["rnn"] == ("b",)


def test_an_unrolled_gluon_layer_equals_one_device():
    losses = []
    data = mx.nd.array(np.random.RandomState(1).uniform(-1, 1, (TIME, BATCH, WIDTH)), dtype="float64")
    for when in (None, "always"):
        np.random.seed(0)
        mx.random.seed(0)
        layer = mx.gluon.rnn.LSTM(UNITS, 2, bidirectional=True, input_size=WIDTH, dtype="float64")
        layer.initialize(mx.init.Uniform(0.3))
        layer.hybridize()
        if when is not None:
            layer = tofu.gluon.partition(layer, ngpus=3, unroll=when)
        trainer = mx.gluon.Trainer(layer.collect_params(), "sgd", {"learning_rate": 0.5})
        data.attach_grad()
        for _ in range(2):
            with mx.autograd.record():
                loss = mx.nd.sin(layer(data)).sum()
            loss.backward()
            trainer.step(BATCH)
        losses.append(loss.asscalar())
    assert losses[0] == pytest.approx(losses[1], rel=1e-11)
