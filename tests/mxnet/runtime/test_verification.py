import re
from dataclasses import FrozenInstanceError, replace

import mxnet as mx
import numpy as np
import pytest
from click.testing import CliRunner

import tofu
from tdl_ops.mxnet import DESCRIPTIONS
from tests.shared.training import fill_free_memory
from tofu.command_line.main import main
from tofu.compare.agreement import WIDER
from tofu.mxnet.compare.symbols import SINGLE_PRECISION_OPERATORS
from tofu.mxnet.runtime.symbol import batch_scaling, verification


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
    assert str(agreement).startswith("3 workers agree with one device: 10 tensors, all to at least 1")


def test_an_existing_plan_is_verified():
    split = tofu.partition(classifier(), ngpus=2, hints={"fc1": "k0"}, data=(12, 9))
    plan = split.plan
    agreement = split.verify()
    assert agreement.agrees
    assert dict(agreement.shapes) == {"data": (12, 9), "softmax_label": (12,)}
    assert split.plan is plan
    assert agreement.traffic["training"].planned == 2 * plan.communication_bytes
    assert agreement.notes == (WIDER,)
    assert "\nbytes in float64 " in str(agreement)
    assert split.verify(dtype="float32").notes == ()


def test_several_heads_added_gradients_and_integer_inputs():
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


def test_inference_moves_no_batch_statistics():
    split = tofu.partition(classifier(), ngpus=2, for_training=False, hints={"bn": "b"}, data=(12, 9))
    agreement = split.verify()
    assert agreement.agrees
    assert agreement.training == ()
    assert agreement.traffic["inference"].read < 2 * split.plan.communication_bytes


def test_random_outputs_are_excused():
    noise = mx.sym.random.uniform(shape=(8, 4), name="noise")
    data = mx.sym.Variable("data")
    symbol = mx.sym.Group([mx.sym.FullyConnected(data, num_hidden=4, name="fc") + noise, data * 2])
    agreement = tofu.partition(symbol, ngpus=2).verify(data=(8, 3))
    assert agreement.agrees
    assert {d.name for d in agreement.inference} == {symbol.list_outputs()[1]}
    assert agreement.excused[symbol.list_outputs()[0]] == "depends on the random numbers of noise (_random_uniform)"
    only = tofu.partition(noise + data, ngpus=2, for_training=False).verify(data=(8, 4))
    assert (only.agrees, only.verdict) == (False, "Nothing could be compared.")


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_a_wrong_description_is_found(descriptions, dtype):
    """The description claims that mirrored elements do not move."""
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
    assert re.match(r"WRONG: \w+ \w+ differs by ", agreement.verdict)
    assert {difference.name for difference in agreement.differing} >= {"softmax_output", "fc_weight"}


def test_a_batch_that_does_not_fit_is_halved(monkeypatch):
    monkeypatch.setattr(batch_scaling, "read_free_bytes", lambda: 20_000)
    labels = mx.nd.array(np.arange(64) % 5)
    agreement = tofu.partition(classifier(), ngpus=2).verify(data=(64, 9), values={"softmax_label": labels})
    assert agreement.agrees
    assert agreement.shapes["data"][0] in (8, 16, 32)
    assert agreement.notes[0].startswith(
        f"scaled down: a batch of {agreement.shapes['data'][0]} instead of 64, since 19.5 KiB"
    )
    monkeypatch.setattr(batch_scaling, "read_free_bytes", lambda: 1000)
    with pytest.raises(tofu.ShapeError, match=r"Even a batch of 1 needs .* and 1000 B are free. Use smaller shapes"):
        tofu.partition(classifier(), ngpus=2).verify(data=(64, 9))


def test_rounding_to_single_precision_is_tolerated():
    """Partial sums in float32 round differently, so the comparison falls back to single precision."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3 * 64, name="fc")
    net = mx.sym.InstanceNorm(mx.sym.reshape(net, shape=(0, 3, 64)), name="norm")
    split = tofu.partition(mx.sym.MakeLoss(mx.sym.sin(net)), ngpus=4, hints={"norm": "s0"})
    agreement = split.verify(data=(4, 8))
    assert agreement.agrees
    assert agreement.dtype == "float32"
    assert agreement.notes[0].startswith("in float32, since MXNet rounds to it in norm")


def test_lengths_overwritten_by_mxnet_are_no_fault_of_the_plan():
    """MXNet writes the gradient of the lengths, zeros, over the lengths."""
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


DATA = mx.sym.Variable("data")
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
def test_operators_of_single_precision_run_between_casts(op):
    """All other operators are compared in double precision."""
    assert set(SINGLES) == set(SINGLE_PRECISION_OPERATORS)
    net = mx.sym.Convolution(DATA, kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv")
    net = mx.sym.MakeLoss(mx.sym.sin(SINGLES[op](net)))
    agreement = tofu.partition(net, ngpus=2, hints={"conv": "b"}, data=(4, 3, 5, 6)).verify()
    assert agreement.agrees
    assert agreement.dtype == "float64"
    # Gradients of InstanceNorm's parameters are sums over the batch in single precision.
    assert agreement.worst.error < (1e-6 if op == "InstanceNorm" else 1e-11)
    assert agreement.notes[0] == "in float64 except one"


@pytest.mark.parametrize(
    "op",
    [
        lambda x: mx.sym.mean(x, axis=1),
        lambda x: mx.sym.split_v2(x, 2, axis=1)[0] * 1,
        lambda x: mx.sym.dot(mx.sym.Variable("left", shape=(4, 8)), mx.sym.Variable("a") + x),
    ],
    ids=["mean", "split", "sum"],
)
def test_gradients_that_mxnet_cannot_add_are_added(op):
    agreement = tofu.partition(op(DATA), ngpus=2).verify(data=(8, 6), grad_req={"data": "add"})
    assert agreement.agrees
    assert [difference.name for difference in agreement.training if difference.kind == "gradient"] == ["data"]


def dense(units, name="fc"):
    return mx.sym.FullyConnected(DATA, num_hidden=units, name=name)


def recur(mode, layers=2):
    states = [mx.sym.Variable(name, shape=(layers, 4, 3)) for name in ("state", "cell")[: 2 if mode == "lstm" else 1]]
    return mx.sym.RNN(
        DATA, mx.sym.Variable("parameters"), *states, mode=mode, num_layers=layers, state_size=3, name=mode
    )


def loss_of(net):
    return mx.sym.MakeLoss(mx.sym.sin(net))


def add_nine():
    hidden = dense(6)
    cut = [mx.sym.clip(hidden, -0.3 + 0.01 * i, 0.3, name=f"cut{i}") * (i + 1) for i in range(9)]
    return mx.sym.SoftmaxOutput(mx.sym.add_n(*cut), name="softmax")


def pool_cut_windows():
    net = mx.sym.reshape(dense(98), shape=(0, 2, 7, 7))
    options = {"kernel": (2, 2), "stride": (2, 2), "pooling_convention": "full"}
    return loss_of(mx.sym.Pooling(net, pool_type="avg", name="pool", **options))


def slope():
    net = mx.sym.FullyConnected(mx.sym.LeakyReLU(dense(6), act_type="prelu", name="prelu"), num_hidden=5, name="out")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def softmax_before_another_operator():
    return mx.sym.SoftmaxOutput(dense(5), mx.sym.Variable("label"), out_grad=True, name="softmax") * 2


UNREAD = "wrong if nobody reads output 0"
WRONG_ON_ONE_DEVICE = {
    # name: (model, shape of the data, options, tensors that may be excused, a part of the reason)
    "sums in place": (
        add_nine,
        (8, 5),
        {},
        (),
        "one device has wrong numbers in fc_weight, fc_bias: MXNet adds to sums",
    ),
    "cut windows in oneDNN": (
        pool_cut_windows,
        (4, 8),
        {"dtype": "float32"},
        (),
        "one device has wrong numbers in fc_weight, fc_bias: oneDNN's gradient of average pooling",
    ),
    "slope of PReLU": (slope, (8, 4), {}, ("prelu_gamma",), "prelu"),
    "softmax with out_grad": (
        softmax_before_another_operator,
        (8, 6),
        {},
        ("fc_weight", "fc_bias"),
        "MXNet's softmax_backward may overwrite the softmax",
    ),
    "gradient of a GRU": (
        lambda: mx.sym.MakeLoss(
            mx.sym.sum(mx.sym.sin(recur("gru") + DATA * mx.sym.Variable("scale", shape=(5, 4, 3))))
        ),
        (5, 4, 3),
        {},
        (),
        "one device has wrong numbers in parameters, state, scale: MXNet's own kernel of RNN computes several layers wrong",
    ),
    "fixed parameters": (
        lambda: loss_of(recur("gru", layers=1)),
        (5, 4, 3),
        {"grad_req": {"state": "write"}},
        ("state",),
        "wrong if nobody reads output ",
    ),
}


@pytest.mark.parametrize("case", WRONG_ON_ONE_DEVICE)
def test_what_one_device_computes_wrong_is_no_fault_of_the_plan(case):
    """Either one device is corrected, with a note, or the tensors that it computes wrong are excused."""
    build, shape, options, excusable, reasons = WRONG_ON_ONE_DEVICE[case]
    fill_free_memory()
    agreement = tofu.partition(build(), ngpus=2).verify(data=shape, **options)
    assert agreement.agrees
    assert set(agreement.excused) <= set(excusable)
    if excusable:
        assert all(reasons in said for said in agreement.excused.values())
    else:
        assert any(note.startswith(reasons) for note in agreement.notes)
        assert agreement.worst.error < 1e-5


@pytest.mark.parametrize("labels", [[[0, 1], [0, 2], [0, 0], [0, 0]], [[1, 2], [3, 0], [0, 0], [0, 0]], [[1, 1]] * 4])
def test_results_that_ctc_loss_does_not_write_are_compared(labels):
    """They are not excused. One device is run again with a CTCLoss that writes them. Only the second labels fit and are not empty."""
    data = mx.sym.broadcast_add(mx.sym.reshape(DATA, shape=(2, -1, 5)), mx.sym.Variable("bias", shape=(1, 1, 5)))
    fill_free_memory()
    values = {"label": np.array(labels)}
    split = tofu.partition(mx.sym.CTCLoss(data, mx.sym.Variable("label"), name="ctc"), ngpus=2, hints={"ctc": "b"})
    agreement = split.verify(data=(8, 5), label=(4, 2), values=values)
    assert agreement.agrees
    assert agreement.excused == {}
    is_corrected = any("MXNet's CTCLoss does not write some results" in note for note in agreement.notes)
    assert is_corrected == (labels[0] != [1, 2])


def test_a_variance_alone_is_wrong_on_one_device():
    both = mx.sym.Group([mx.sym.moments(DATA, axes=(1,), name="moments")[1], DATA * 2])
    agreement = tofu.partition(both, ngpus=2, for_training=False).verify(data=(8, 6))
    assert agreement.agrees
    (reason,) = agreement.excused.values()
    assert "MXNet computes output 1 of moments wrong if nobody reads output 0" in reason


def test_the_verify_model_command(tmp_path, monkeypatch):
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
    real = verification.measure_traffic
    monkeypatch.setattr(
        verification, "measure_traffic", lambda *a: {n: replace(t, read=t.read + 4) for n, t in real(*a).items()}
    )
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "WRONG: the bytes differ: training: " in result.output
