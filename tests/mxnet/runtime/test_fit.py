import logging
from functools import partial

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.shared.module_runs import (
    BATCH,
    CLASSES,
    FEATURES,
    ModuleCase,
    assert_all_close,
    batches,
    bind,
    largest_error,
    model,
    parameters_of,
    start,
)
from tofu.mxnet.runtime.arrays.shards import ShardedTensor
from tofu.mxnet.runtime.executor.executor import Executor

SGD = ModuleCase("sgd", {"learning_rate": 0.1, "momentum": 0.9})
# Gradients of data and labels are not requested, so a monitor of one device shows unwritten memory.
UNWRITTEN = ("fc0_backward_output0", "softmax_backward_output1")


def iterator(count=5, label_name="softmax_label", **options):
    rng = np.random.RandomState(0)
    data = rng.uniform(-1, 1, (BATCH * count, FEATURES)).astype("float32")
    return mx.io.NDArrayIter(data, rng.randint(0, CLASSES, BATCH * count), BATCH, label_name=label_name, **options)


def modules(workers=4):
    return [
        ("mxnet", mx.mod.Module(model())),
        ("partitioned", mx.mod.Module(tofu.partition(model(), workers))),
        ("sharded", tofu.mod.Module(model(), ngpus=workers)),
    ]


def watch(module, is_train=True, monitor_all=False):
    """Record a monitor over two steps, the second with a smaller batch."""
    monitor = mx.mon.Monitor(1, mx.nd.norm, sort=True, monitor_all=monitor_all)
    start(module, SGD).install_monitor(monitor)
    shown = []
    for size in (BATCH, 6):
        batch = mx.io.DataBatch([batches(1)[0].data[0][:size]], [batches(1)[0].label[0][:size]])
        monitor.tic()
        module.forward(batch, is_train=is_train)
        if is_train:
            module.backward()
        shown.append(monitor.toc())
    return shown


@pytest.mark.parametrize("name", ["partitioned", "sharded"])
@pytest.mark.parametrize(("is_train", "monitor_all"), [(True, False), (False, False), (False, True)])
def test_a_monitor_sees_the_names_and_numbers_of_one_device(name, is_train, monitor_all):
    """MXNet itself crashes in a backward pass with monitor_all=True."""
    (_, single), *others = modules()
    expected, found = (watch(module, is_train, monitor_all) for module in (single, dict(others)[name]))
    names = [[entry[1] for entry in step] for step in (expected[0], *found)]
    assert sorted(names[1]) == sorted(names[0])
    assert names[2] == names[1]  # after a reshape
    shown = zip(names[:2], (expected[0], found[0]), strict=True)
    numbers = [sorted((key, float(entry[2])) for key, entry in zip(*pair, strict=True)) for pair in shown]
    for (key, value), (_, number) in zip(*numbers, strict=True):
        if key not in UNWRITTEN:
            assert number == pytest.approx(value, rel=1e-11, abs=1e-13), key


# Gradients of data, which some kernels do not write.
UNREAD = "softmax_backward|fc_backward_output0|out_backward_output1"


def normalized():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
    net = mx.sym.LayerNorm(mx.sym.BatchNorm(net, fix_gamma=False, name="bn"), name="ln")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=4, name="out"), name="softmax")


def test_a_monitor_sees_whole_tensors_of_lowered_operators():
    net, hints, shown = normalized(), {"bn": "b", "bn_backward": "b", "out": "k0"}, []
    for symbol in (net, tofu.partition(net, 4, hints=hints)):
        executor = symbol.simple_bind(mx.cpu(), data=(8, 6), type_dict={"data": "float64"})
        rng = np.random.RandomState(1)
        for array in [*executor.arg_dict.values(), *executor.aux_dict.values()]:
            array[:] = rng.uniform(0.5, 1, array.shape)
        monitor = mx.mon.Monitor(1, lambda array: array.copy(), pattern=f"(?!{UNREAD}).*")
        monitor.install(executor)
        monitor.tic()
        executor.forward(is_train=True)
        executor.backward()
        shown.append(sorted(((name, value.asnumpy()) for _, name, value in monitor.queue), key=lambda pair: pair[0]))
    assert [name for name, _ in shown[1]] == [name for name, _ in shown[0]]
    assert_all_close([array for _, array in shown[1]], [array for _, array in shown[0]], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", ["partitioned", "sharded", "mixed"])
def test_a_chain_of_modules(kind):
    data = mx.sym.Variable("data")
    first = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=14, name="fc0"), act_type="tanh", name="act0")
    second = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(data, num_hidden=CLASSES, name="fc1"), name="softmax")

    def chain(make_first, make_second):
        module = mx.mod.SequentialModule()
        module.add(make_first(first, label_names=None)).add(make_second(second), take_labels=True, auto_wiring=True)
        mx.random.seed(3)
        options = {"initializer": mx.init.Xavier(), "optimizer_params": {"learning_rate": 0.2}}
        module.fit(iterator(), num_epoch=2, eval_metric=mx.metric.create(["acc", "ce"]), **options)
        return parameters_of(module), dict(module.score(iterator(), ["acc", "ce"]))

    def partitioned(net, **options):
        return mx.mod.Module(tofu.partition(net, 4), **options)

    sharded = partial(tofu.mod.Module, ngpus=4)
    makers = {
        "partitioned": (partitioned, partitioned),
        "sharded": (sharded, sharded),
        "mixed": (mx.mod.Module, sharded),
    }
    expected, scores = chain(mx.mod.Module, mx.mod.Module)
    found, found_scores = chain(*makers[kind])
    assert largest_error(found, expected) < 1e-5
    np.testing.assert_allclose(found_scores["cross-entropy"], scores["cross-entropy"], rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.* has no checksum:UserWarning")
@pytest.mark.parametrize("kind", ["partitioned", "sharded"])
def test_fit_with_metrics_and_callbacks(kind, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    seen = {}
    for name, module in modules():
        if name not in ("mxnet", kind):
            continue
        prefix = str(tmp_path / name)
        seen[name] = []
        mx.random.seed(3)
        module.fit(
            iterator(),
            eval_data=iterator(2),
            eval_metric=["acc", mx.metric.TopKAccuracy(3), "ce"],
            batch_end_callback=[mx.callback.Speedometer(BATCH, 2, auto_reset=False), mx.callback.ProgressBar(5)],
            epoch_end_callback=[
                mx.callback.do_checkpoint(prefix),
                mx.callback.module_checkpoint(module, prefix + "-own", save_optimizer_states=True),
                lambda epoch, symbol, arguments, states, seen=seen[name]: seen.append(
                    (epoch, {n: v.asnumpy() for n, v in arguments.items()})
                ),
            ],
            eval_end_callback=mx.callback.LogValidationMetricsCallback(),
            optimizer="adam",
            initializer=mx.init.Xavier(),
            num_epoch=2,
        )
        again = type(module).load(prefix, 2, **({"ngpus": 3} if kind == "sharded" and name == kind else {}))
        again.bind(iterator().provide_data, iterator().provide_label, for_training=False)
        assert largest_error(parameters_of(again), parameters_of(module)) == 0
        own = {n.split(":")[1]: v.asnumpy() for n, v in mx.nd.load(f"{prefix}-own-0002.params").items()}
        assert largest_error(own, parameters_of(module)) == 0
        if name == "partitioned":
            assert isinstance(again._exec_group.execs[0], Executor)
    for (epoch, found), (expected_epoch, expected) in zip(seen[kind], seen["mxnet"], strict=True):
        assert epoch == expected_epoch
        assert largest_error(found, expected) < 1e-3
    assert caplog.text.count("Speed:") == 8
    assert "Validation-top_k_accuracy_3" in caplog.text


def test_fit_gathers_no_parameters(monkeypatch):
    module, gathered, gather = tofu.mod.Module(model(), ngpus=4), [], ShardedTensor.gather
    monkeypatch.setattr(ShardedTensor, "gather", lambda t, out=None: gathered.append(t.name) or gather(t, out))
    module.fit(iterator(), num_epoch=2, initializer=mx.init.Xavier())
    assert not [name for name in gathered if name.endswith(("weight", "bias"))]


@pytest.mark.parametrize("last", ["pad", "discard", "roll_over"])
def test_predict_and_score_over_the_last_batch(last):
    rng = np.random.RandomState(0)
    data, labels = rng.uniform(-1, 1, (BATCH * 2 + 5, FEATURES)), rng.randint(0, CLASSES, BATCH * 2 + 5)
    results = []
    for _, module in modules():
        feed = mx.io.NDArrayIter(data, labels, BATCH, last_batch_handle=last, label_name="softmax_label")
        mx.random.seed(3)
        module.bind(feed.provide_data, feed.provide_label, for_training=False)
        module.init_params(mx.init.Xavier())
        predicted = module.predict(feed).asnumpy()
        several = [o[0].asnumpy() for o, _, _ in module.iter_predict(feed)]
        results.append((predicted, several, dict(module.score(feed, ["acc", "ce"]))))
    for predicted, several, scores in results[1:]:
        np.testing.assert_allclose(predicted, results[0][0], rtol=1e-5)
        assert_all_close(several, results[0][1], rtol=1e-5)
        np.testing.assert_allclose(scores["cross-entropy"], results[0][2]["cross-entropy"], rtol=1e-5)


@pytest.mark.filterwarnings("ignore:Data provided by label_shapes")
@pytest.mark.parametrize("has_labels", [True, False])
def test_a_smaller_batch_without_labels(has_labels):
    """MXNet's Module refuses to change the shape of a label that was not bound."""
    whole, module = batches(1)[0].data[0], tofu.mod.Module(model(), ngpus=4)
    labels = [mx.io.DataDesc("softmax_label", (BATCH,), "float64")] if has_labels else None
    module.bind([mx.io.DataDesc("data", (BATCH, FEATURES), "float64")], labels, for_training=False)
    module.init_params(mx.init.Xavier())
    module.forward(mx.io.DataBatch([whole]))
    expected = module.get_outputs()[0].asnumpy()
    for count in (7, 5, BATCH):
        module.forward(mx.io.DataBatch([whole[:count]]))
        np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected[:count], rtol=1e-9)


@pytest.mark.parametrize("flatten", [lambda y, x: mx.sym.Reshape(y, shape=(-1,)), mx.sym.reshape_like])
def test_a_smaller_batch_whose_labels_cannot_be_inferred(flatten):
    scores = mx.sym.FullyConnected(mx.sym.Reshape(mx.sym.Variable("data"), shape=(-3, 0)), num_hidden=7, name="fc")
    each_line = mx.sym.sum(scores, axis=1)
    net = mx.sym.SoftmaxOutput(scores, flatten(mx.sym.Variable("softmax_label"), each_line), name="softmax")
    rng = np.random.RandomState(0)
    lines, labels = mx.nd.array(rng.uniform(-1, 1, (4, 3, 5))), mx.nd.array(rng.randint(0, 7, (4, 3)))
    trained = []
    for module in (mx.mod.Module(net), tofu.mod.Module(net, ngpus=2)):
        module.bind([("data", (4, 3, 5))], [("softmax_label", (4, 3))])
        module.init_params(mx.init.One())
        module.init_optimizer()
        for count in (4, 2, 4):
            batch = mx.io.DataBatch([lines[:count]], [labels[:count]])
            module.forward(batch, is_train=True)
            module.backward()
            module.update()
        trained.append(parameters_of(module))
    assert_all_close(trained[1], trained[0], rtol=1e-5)
    module.forward(mx.io.DataBatch([lines]), is_train=False)
    whole = module.get_outputs()[0].asnumpy()
    module.forward(mx.io.DataBatch([lines[:2]]), is_train=False)
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), whole[:6], rtol=1e-5)


def test_initial_values_are_drawn_as_on_one_device():
    net = mx.sym.Variable("data")
    weight = mx.sym.Variable("fc0_weight", init=mx.init.Constant(0.3))
    net = mx.sym.FullyConnected(net, weight=weight, num_hidden=18, name="fc0")
    net = mx.sym.FullyConnected(net, num_hidden=16, name="fc1")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=CLASSES, name="out"), name="softmax")
    initializers = [
        mx.init.Orthogonal(),
        mx.init.MSRAPrelu(),
        mx.init.Mixed([".*bias", ".*"], [mx.init.Zero(), mx.init.Xavier(rnd_type="gaussian")]),
        mx.init.Load({"out_bias": mx.nd.ones(CLASSES)}, default_init=mx.init.One()),
    ]
    for initializer in initializers:
        values = []
        for module in (mx.mod.Module(net), tofu.mod.Module(tofu.partition(net, 4, hints={"fc1_weight": (0, 1)}))):
            mx.random.seed(5)
            np.random.seed(5)
            bind(module, "float32").init_params(initializer)
            values.append(parameters_of(module))
        assert largest_error(values[1], values[0]) == 0


@pytest.mark.parametrize("kind", [mx.mod.Module, partial(tofu.mod.Module, ngpus=2)], ids=["one_device", "sharded"])
def test_a_label_may_be_a_parameter(kind):
    data, target = mx.sym.Variable("data"), mx.sym.Variable("target_weight", shape=(4,))
    module = kind(mx.sym.softmax_cross_entropy(data, target), label_names=None)
    module.bind([("data", (4, 3))])
    with pytest.raises(RuntimeError, match="target_weight"):
        module.init_params(arg_params={})
    module.init_params(arg_params={"target_weight": mx.nd.array([2, 0, 1, 2])})
    module.forward(mx.io.DataBatch([mx.nd.arange(12).reshape((4, 3))]), is_train=True)
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), [4 * np.log(1 + np.exp(-1) + np.exp(-2)) + 3], 1e-6)
    np.testing.assert_array_equal(module.get_params()[0]["target_weight"].asnumpy(), [2, 0, 1, 2])
