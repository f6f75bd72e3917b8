"""sym.verify and python -m tofu verify-model: they agree with right plans, and see what is planted."""

from dataclasses import FrozenInstanceError, replace

import mxnet as mx
import numpy as np
import pytest
from click.testing import CliRunner

import tofu
from tdl_ops.mxnet import DESCRIPTIONS
from tests.models.normalized import NORMALIZED
from tests.models.plain import shared_mlp
from tests.shared.training import fill_free_memory
from tofu.command_line.main import main
from tofu.mxnet.compare.symbols import SINGLE
from tofu.mxnet.runtime.symbol import fitting_host, verification


def classifier(width=7):
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=width, name="fc1")
    net = mx.sym.BatchNorm(mx.sym.Activation(net, act_type="relu", name="act"), fix_gamma=False, name="bn")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=5, name="fc2"), name="softmax")


def test_outputs_gradients_and_states_are_compared():
    agreement = tofu.partition(classifier(), ngpus=3).verify(data=(12, 9))
    assert agreement.agrees
    found = {(difference.kind, difference.name) for difference in agreement.training}
    assert found == {
        ("output", "softmax_output"),
        *(("gradient", name) for name in ("fc1_weight", "fc1_bias", "bn_gamma", "bn_beta", "fc2_weight", "fc2_bias")),
        *(("state", name) for name in ("bn_moving_mean", "bn_moving_var")),
    }
    assert [difference.name for difference in agreement.inference] == ["softmax_output"]
    assert agreement.dtype == "float64"
    assert agreement.worst.digits > 12
    assert set(agreement.traffic) == {"training", "inference"}
    assert all(traffic.agrees and traffic.read > 0 for traffic in agreement.traffic.values())
    with pytest.raises(FrozenInstanceError):
        agreement.tolerance = 1.0
    assert str(agreement).startswith("3 workers agree with one device: 10 tensors, to 1")


def test_the_plan_that_is_there_is_the_one_that_is_verified():
    split = tofu.partition(classifier(), ngpus=2, hints={"fc1": "k0"}, data=(12, 9))
    plan = split.plan
    agreement = split.verify()
    assert agreement.agrees
    assert dict(agreement.shapes) == {"data": (12, 9), "softmax_label": (12,)}
    assert split.plan is plan
    assert agreement.traffic["training"].planned == 2 * plan.communication_bytes  # in float64


def test_several_heads_gradients_that_are_added_and_integer_inputs():
    tokens = mx.sym.Variable("tokens", dtype="int32")
    embedded = mx.sym.Embedding(tokens, input_dim=13, output_dim=6, name="embed")
    state = mx.sym.Variable("state")
    net = mx.sym.RNN(mx.sym.SwapAxis(embedded, dim1=0, dim2=1), mx.sym.Variable("rnn_parameters"), state,
                     mode="gru", num_layers=1, state_size=4, p=0.3, name="rnn")  # fmt: skip
    symbol = mx.sym.Group([net * 2, mx.sym.sum(embedded, axis=2, name="total"), mx.sym.BlockGrad(embedded, name="b")])
    requests = {"embed_weight": "add", "rnn_parameters": "write", "state": "add"}
    split = tofu.partition(symbol, ngpus=2)
    agreement = split.verify(tokens=(6, 5), state=(1, 6, 4), grad_req=requests)
    assert agreement.agrees
    assert {d.name for d in agreement.training if d.kind == "gradient"} == set(requests)
    assert any("dropout is off (p=0) in rnn" in note for note in agreement.notes)


def test_inference_alone_moves_less_where_statistics_are_not_taken():
    split = tofu.partition(classifier(), ngpus=2, for_training=False, hints={"bn": "b"}, data=(12, 9))
    agreement = split.verify()
    assert agreement.agrees
    assert agreement.training == ()
    assert agreement.traffic["inference"].read < 2 * split.plan.communication_bytes


def test_random_numbers_are_left_out_and_said():
    noise = mx.sym.random.uniform(shape=(8, 4), name="noise")
    data = mx.sym.Variable("data")
    symbol = mx.sym.Group([mx.sym.FullyConnected(data, num_hidden=4, name="fc") + noise, data * 2])
    agreement = tofu.partition(symbol, ngpus=2).verify(data=(8, 3))
    assert agreement.agrees
    assert {d.name for d in agreement.inference} == {symbol.list_outputs()[1]}
    assert agreement.excused[symbol.list_outputs()[0]] == "depends on the random numbers of noise (_random_uniform)"
    only = tofu.partition(noise + data, ngpus=2, for_training=False).verify(data=(8, 4))
    assert (only.agrees, only.verdict) == (False, "Nothing could be compared.")


def test_rounding_is_what_the_page_says():
    assert verification.ROUNDING == {"float64": 1e-10, "float32": 1e-5}
    assert verification.MOST_ROUNDING == {"float64": 1e-6, "float32": 1e-2}
    assert verification.OWN_ERRORS == 4.0


def test_in_single_precision_one_device_is_the_scale():
    symbol = NORMALIZED["resnet_v1"]()
    agreement = tofu.partition(symbol.symbol, ngpus=4).verify(dtype="float32", **symbol.shapes)
    assert agreement.agrees
    assert agreement.dtype == "float32"
    assert agreement.tolerance <= verification.MOST_ROUNDING["float32"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_lowering_that_is_broken_is_seen(monkeypatch, dtype):
    model = shared_mlp()
    split = tofu.partition(model.symbol, ngpus=2, hints={"out": "k0"})
    real = verification.run_step

    def wrong(symbol, *given, **options):
        run = real(symbol, *given, **options)
        if symbol.list_arguments() and isinstance(symbol, tofu.PartitionedSymbol):
            gradients = dict(run.training.gradients)
            gradients["even_bias"] = gradients["even_bias"] * (1 + 1e-3)
            return replace(
                run, training=replace(run.training, gradients=gradients), training_bytes=run.training_bytes + 4
            )
        return run

    monkeypatch.setattr(verification, "run_step", wrong)
    agreement = split.verify(dtype=dtype, **model.shapes)
    assert not agreement.agrees
    assert agreement.differing[0].name == "even_bias"
    assert agreement.verdict.startswith("WRONG: gradient even_bias differs by ")
    assert not agreement.traffic["training"].agrees


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_a_wrong_description_is_seen(descriptions, dtype):
    """Mirrored cells described as if they stayed where they are."""
    mirrored = mx.sym.reverse(
        mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc"), axis=1, name="flip"
    )
    split = tofu.partition(mx.sym.SoftmaxOutput(mirrored, name="softmax"), ngpus=2, hints={"flip": "i1"}, cache=False)
    assert split.verify(data=(7, 5), dtype=dtype).agrees

    def stays(data, *, axis):
        return lambda *i: data[i]

    for name in ("reverse", "_backward_reverse"):
        descriptions[name] = DESCRIPTIONS.describe(stays, (name,))
    agreement = split.verify(data=(7, 5), dtype=dtype)
    assert not agreement.agrees
    assert agreement.verdict.startswith("WRONG: ")
    assert {difference.name for difference in agreement.differing} >= {"softmax_output", "fc_weight"}


def test_a_batch_that_does_not_fit_is_halved(monkeypatch):
    monkeypatch.setattr(fitting_host, "read_free_bytes", lambda: 20_000)
    labels = np.arange(64) % 5
    agreement = tofu.partition(classifier(), ngpus=2).verify(data=(64, 9), values={"softmax_label": labels})
    assert agreement.agrees
    assert agreement.shapes["data"][0] in (8, 16, 32)
    assert agreement.notes[0].startswith(
        f"scaled down: a batch of {agreement.shapes['data'][0]} instead of 64, since 19.5 KiB"
    )
    monkeypatch.setattr(fitting_host, "read_free_bytes", lambda: 1000)
    with pytest.raises(tofu.ShapeError, match=r"Even a batch of 1 needs .* and 1000 B are free. Give smaller shapes"):
        tofu.partition(classifier(), ngpus=2).verify(data=(64, 9))


def test_sums_that_one_device_gets_wrong_are_held_against_one_that_does_not():
    hidden = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc")
    cut = [mx.sym.clip(hidden, -0.3 + 0.01 * i, 0.3, name=f"cut{i}") * (i + 1) for i in range(9)]
    split = tofu.partition(mx.sym.SoftmaxOutput(mx.sym.add_n(*cut), name="softmax"), ngpus=2)
    agreement = split.verify(data=(8, 5))
    assert agreement.agrees
    assert not agreement.excused
    assert agreement.notes[0].startswith(
        "one device has wrong gradients of fc_weight, fc_bias: MXNet adds to sums in place"
    )


def test_a_normalization_before_a_convolution_is_held_against_one_that_is_right():
    """oneDNN gives wrong gradients of LRN where the one that it reads comes from a convolution."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=16 * 16, name="fc")
    net = mx.sym.LRN(mx.sym.reshape(net, shape=(0, 16, 4, 4)), alpha=9.0, nsize=5, name="lrn")
    net = mx.sym.Convolution(net, kernel=(3, 3), num_filter=16, name="conv")
    split = tofu.partition(mx.sym.MakeLoss(mx.sym.sin(net)), ngpus=2)
    agreement = split.verify(data=(4, 8), dtype="float32")
    assert agreement.agrees
    assert not agreement.excused
    assert agreement.worst.error < 1e-5


SINGLES = {
    "CTCLoss": lambda data: mx.sym.CTCLoss(
        mx.sym.reshape(data, shape=(-3, 0, 0)), mx.sym.Variable("label", shape=(5, 2)), name="one"
    ),
    "Crop": lambda data: mx.sym.Crop(data, h_w=(3, 4), center_crop=True, name="one"),
    "InstanceNorm": lambda data: mx.sym.InstanceNorm(data, name="one"),
    "LRN": lambda data: mx.sym.LRN(data, nsize=3, alpha=3.0, name="one"),
    "SoftmaxActivation": lambda data: mx.sym.SoftmaxActivation(data, mode="channel", name="one"),
}


@pytest.mark.parametrize("op", SINGLES)
def test_operators_of_single_precision_stand_between_casts(op):
    """All else is compared in double, under the plan that is verified. MXNet itself has no float64 for them."""
    assert set(SINGLES) == set(SINGLE)
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv")
    net = mx.sym.MakeLoss(mx.sym.sin(SINGLES[op](net)))
    split = tofu.partition(net, ngpus=2, hints={"conv": "b"}, data=(4, 3, 5, 6))
    agreement = split.verify()
    assert agreement.agrees
    assert agreement.dtype == "float64"
    # Gradients of its parameters are sums over the batch, in single precision.
    assert agreement.worst.error < (1e-6 if op == "InstanceNorm" else 1e-11)
    assert agreement.notes[0] == "in float64 but for one"
    with pytest.raises((mx.base.MXNetError, RuntimeError), match=r"[Uu]nsupported|uniform type|do not match"):
        _run_in_double(net)


def _run_in_double(symbol):
    types = dict.fromkeys(symbol.list_arguments(), "float64")
    executor = symbol.simple_bind(mx.cpu(), data=(4, 3, 5, 6), type_dict=types)
    executor.forward(is_train=True)[0].asnumpy()


def test_a_rounding_of_single_precision_is_none_of_double():
    """Sums in parts, in float32, have another last digit: the comparison is of single precision then."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3 * 64, name="fc")
    net = mx.sym.InstanceNorm(mx.sym.reshape(net, shape=(0, 3, 64)), name="norm")
    split = tofu.partition(mx.sym.MakeLoss(mx.sym.sin(net)), ngpus=4, hints={"norm": "s0"})
    agreement = split.verify(data=(4, 8))
    assert agreement.agrees
    assert agreement.dtype == "float32"
    assert agreement.notes[0].startswith("in float32, since MXNet rounds to it in norm")


def multiply_sum(x):
    return mx.sym.FullyConnected(
        mx.sym.Variable("left", shape=(4, 6)), mx.sym.Variable("a") + x, num_hidden=8, no_bias=True
    )


@pytest.mark.parametrize(
    "op",
    [
        lambda x: mx.sym.mean(x, axis=1),
        lambda x: mx.sym.split_v2(x, 2, axis=1)[0] * 1,
        lambda x: mx.sym.flip(x, axis=1),
        multiply_sum,
    ],
    ids=["mean", "split", "flip", "sum"],
)
def test_gradients_that_mxnet_cannot_add_are_added_here(op):
    agreement = tofu.partition(op(mx.sym.Variable("data")), ngpus=2).verify(data=(8, 6), grad_req={"data": "add"})
    assert agreement.agrees
    assert [difference.name for difference in agreement.training if difference.kind == "gradient"] == ["data"]


def test_a_variance_alone_is_wrong_on_one_device():
    data = mx.sym.Variable("data")
    both = mx.sym.Group([mx.sym.moments(data, axes=(1,), name="moments")[1], data * 2])
    agreement = tofu.partition(both, ngpus=2, for_training=False).verify(data=(8, 6))
    assert agreement.agrees
    (reason,) = agreement.excused.values()
    assert "MXNet leaves output 1 of moments wrong where nobody reads output 0" in reason


def test_what_mxnet_itself_gets_wrong_is_no_fault_of_the_plan():
    """A slope of PReLU, whose gradient MXNet reads out of what it has overwritten."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc")
    net = mx.sym.LeakyReLU(net, act_type="prelu", name="prelu")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=5, name="out"), name="softmax")
    agreement = tofu.partition(net, ngpus=2).verify(data=(8, 4))
    assert agreement.agrees
    reasons = {name: reason for name, reason in agreement.excused.items() if "slope" in reason}
    compared = {difference.name for difference in agreement.training}
    assert set(reasons) | compared >= {"prelu_gamma"}


def test_lengths_that_mxnet_overwrites_are_no_fault_of_the_plan():
    """Computed lengths, whose gradient is asked for: MXNet writes its zeros first, over the lengths."""
    scores = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc")
    lengths = mx.sym.Variable("lengths", dtype="int32") + 1
    weights = mx.sym.softmax(scores, lengths, use_length=True, name="weights")
    split = tofu.partition(mx.sym.MakeLoss(mx.sym.sin(weights)), ngpus=2)
    values = {"lengths": np.array([1, 5, 0, 2])}
    for asked, excused in ({"fc_weight"}, set()), ({"fc_weight", "lengths"}, {"fc_weight"}):
        requests = {name: "write" if name in asked else "null" for name in split.list_arguments()}
        agreement = split.verify(data=(4, 5), lengths=(4,), values=values, grad_req=requests)
        assert agreement.agrees
        assert set(agreement.excused) == excused
        assert all("may write zeros over the lengths" in reason for reason in agreement.excused.values())


def test_a_gradient_that_mxnet_works_on_is_no_fault_of_the_plan_for_those_that_share_it():
    """Around a GRU of two layers: its kernel writes over the gradient that the connection hands on as well."""
    data, parameters = mx.sym.Variable("data"), mx.sym.Variable("parameters", shape=(144,))
    state = mx.sym.Variable("state", shape=(2, 4, 3))
    layers = mx.sym.RNN(data, parameters, state, mode="gru", num_layers=2, state_size=3, name="gru")
    net = mx.sym.MakeLoss(mx.sym.sum(mx.sym.sin(layers + data * mx.sym.Variable("scale", shape=(5, 4, 3)))))
    agreement = tofu.partition(net, ngpus=2).verify(data=(5, 4, 3))
    assert agreement.agrees
    assert set(agreement.excused) <= {"scale", "parameters", "state"}
    known = ("gru_backward may overwrite what it shares", "gru_backward wrong where nobody reads output 0")
    assert all(any(reason in said for reason in known) for said in agreement.excused.values())


@pytest.mark.parametrize("mode", ["gru", "lstm"])
def test_layers_of_a_recurrence_over_plain_data_are_no_fault_of_the_plan(mode):
    """MXNet hands gradients from layer to layer in that of the data, which nobody asks for."""
    data, state = mx.sym.Variable("data"), mx.sym.Variable("state", shape=(2, 4, 3))
    states = [state, mx.sym.Variable("cell", shape=(2, 4, 3))] if mode == "lstm" else [state]
    parameters = mx.sym.Variable("parameters", shape=({"gru": 144, "lstm": 192}[mode],))
    layers = mx.sym.RNN(data, parameters, *states, mode=mode, num_layers=2, state_size=3, name="layers")
    net = mx.sym.MakeLoss(mx.sym.sum(mx.sym.sin(layers * 1.5)))
    for _ in range(3):
        fill_free_memory()
        agreement = tofu.partition(net, ngpus=2).verify(data=(5, 4, 3))
        assert agreement.agrees
        assert set(agreement.excused) <= {"parameters", "state", "cell"}
        assert all("wrong where nobody reads output 0" in reason for reason in agreement.excused.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float16"}, "dtype= is one of float64, float32, or left out, not 'float16'"),
        ({"values": {"weight": np.ones(3)}}, "values= has names that are not in the model:\n  - weight"),
        (
            {"values": {"fc1_bias": np.ones(3)}},
            r"values= has another shape .*:\n  - fc1_bias: \(3,\) given, \(7,\) needed",
        ),
        ({"values": {"data": [[1.0], [2.0, 3.0]]}}, r"These are none:\n  - data=\[\[1.0\], \[2.0, 3.0\]\]"),
        ({"values": {"data": "ones"}}, "These are none:\n  - data='ones'"),
        ({"values": [np.ones(3)]}, "values= maps names to arrays"),
        ({"grad_req": "sum"}, "grad_req must be one of write, add, null"),
        ({"dta": (1, 2)}, r"dta=\(1, 2\) \(did you mean data=\?\)"),
    ],
)
def test_wrong_arguments_are_explained(options, message):
    with pytest.raises(tofu.TofuError, match=message):
        tofu.partition(classifier(), ngpus=2).verify(**{"data": (12, 9), **options})


def test_values_may_be_ndarrays(monkeypatch):
    numbers, drawn = np.random.RandomState(0).uniform(-1, 1, (12, 9)).astype(np.float32), []
    draw = verification.draw_values

    def record(*given):
        drawn.append(draw(*given))
        return drawn[-1]

    monkeypatch.setattr(verification, "draw_values", record)
    assert tofu.partition(classifier(), ngpus=2).verify(values={"data": mx.nd.array(numbers)}, data=(12, 9)).agrees
    np.testing.assert_array_equal(drawn[-1]["data"], numbers)


def test_one_worker_has_nothing_to_compare():
    with pytest.raises(tofu.PlanError, match=r"nothing to compare\. Give ngpus=2 or more"):
        tofu.partition(classifier(), ngpus=1).verify(data=(12, 9))


def test_the_command(tmp_path, monkeypatch):
    path, values = tmp_path / "net-symbol.json", tmp_path / "batch.npz"
    classifier().save(str(path))
    np.savez(values, data=np.ones((12, 9)))
    command = ["verify-model", str(path), "--shape", "data:12,9", "--workers", "2"]
    result = CliRunner().invoke(main, [*command, "--input", str(values), "--hint", "fc1=k0", "--grad-req", "add"])
    assert result.exit_code == 0, result.output
    assert "2 workers agree with one device" in result.output
    assert "inference: outputs" in result.output
    result = CliRunner().invoke(main, [*command, "--inference"])
    assert result.exit_code == 0, result.output
    assert "training" not in result.output
    result = CliRunner().invoke(main, [*command, "--input", str(path)])
    assert result.exit_code == 1
    assert f"--input {path} is no .npz file of arrays" in result.output
    real = verification.measure_traffic
    monkeypatch.setattr(
        verification, "measure_traffic", lambda *a: {n: replace(t, read=t.read + 4) for n, t in real(*a).items()}
    )
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "WRONG: the bytes differ: training: " in result.output
