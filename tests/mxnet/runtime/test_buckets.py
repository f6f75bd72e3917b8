"""MXNet's BucketingModule over partitioned symbols, and Tofu's."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.shared.module_runs import (
    BATCH,
    CLASSES,
    largest_error,
    parameters_of,
)


def sequence_model(length):
    """A recurrent net by hand, its weights shared by the time steps and by the buckets."""
    data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
    embedded = mx.sym.Embedding(data, input_dim=20, output_dim=8, name="embed", dtype="float64")
    steps = mx.sym.SliceChannel(embedded, num_outputs=length, axis=1, squeeze_axis=True, name="steps")
    weights = [mx.sym.Variable(name) for name in ("i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias")]
    state = None
    for t in range(length):
        new = mx.sym.FullyConnected(
            steps[t] if length > 1 else steps, weight=weights[0], bias=weights[1], num_hidden=12, name=f"t{t}_i2h"
        )
        if state is not None:
            new = new + mx.sym.FullyConnected(
                state, weight=weights[2], bias=weights[3], num_hidden=12, name=f"t{t}_h2h"
            )
        state = mx.sym.Activation(new, act_type="tanh", name=f"t{t}_state")
    out = mx.sym.FullyConnected(state, num_hidden=CLASSES, name="out")
    return mx.sym.SoftmaxOutput(out, label, name="softmax", normalization="batch")


def sequence_batches(lengths):
    rng = np.random.RandomState(0)
    made = []
    for length in lengths:
        data = mx.nd.array(rng.randint(0, 20, (BATCH, length)), dtype="float64")
        label = mx.nd.array(rng.randint(0, CLASSES, BATCH), dtype="float64")
        made.append(
            mx.io.DataBatch(
                [data],
                [label],
                bucket_key=length,
                provide_data=[mx.io.DataDesc("data", data.shape, "float64")],
                provide_label=[mx.io.DataDesc("softmax_label", label.shape, "float64")],
            )
        )
    return made


def make_buckets(apply, kind=mx.mod.BucketingModule, **options):
    return kind(
        lambda length: (apply(sequence_model(length)), ("data",), ("softmax_label",)), default_bucket_key=6, **options
    )


def train_buckets(apply, steps, kind=mx.mod.BucketingModule, **options):
    module = make_buckets(apply, kind, **options)
    first = next(step for step in steps if step.bucket_key == 6)
    module.bind(first.provide_data, first.provide_label)
    mx.random.seed(3)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.01})
    outputs = []
    for step in steps:
        module.forward(step)
        outputs.append(module.get_outputs()[0].asnumpy())
        module.backward()
        module.update()
    return module, outputs


@pytest.mark.parametrize("workers", [2, 4])
def test_buckets_of_several_lengths(workers):
    steps = sequence_batches([6, 3, 4, 3, 6, 2, 4, 6, 3])
    single, expected = train_buckets(lambda net: net, steps)
    module, outputs = train_buckets(lambda net: tofu.partition(net, workers), steps)
    for found, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert largest_error(parameters_of(module), parameters_of(single)) < 1e-10
    bound = {key: bucket._exec_group.execs[0] for key, bucket in module._buckets.items()}
    assert sorted(bound) == [2, 3, 4, 6]
    whole = bound[6].arg_dict["h2h_weight"]
    assert all(executor.arg_dict["h2h_weight"] is whole for executor in bound.values())  # one copy on the host


def test_buckets_of_shards(tmp_path):
    """`tofu.mod.BucketingModule`: parameters that no device has whole, one optimizer, and checkpoints that MXNet reads too."""
    steps = sequence_batches([6, 3, 4, 3, 6])
    single, expected = train_buckets(lambda net: net, steps)
    module, outputs = train_buckets(lambda net: net, steps, tofu.mod.BucketingModule, ngpus=3)
    for found, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert largest_error(parameters_of(module), parameters_of(single)) < 1e-10
    assert len({id(bucket._optimizer) for bucket in module._buckets.values()}) == 1
    module.save_checkpoint(str(tmp_path / "buckets"), 1)
    for kind, options in ((tofu.mod.BucketingModule, {"ngpus": 2}), (mx.mod.BucketingModule, {})):
        loaded = kind.load(str(tmp_path / "buckets"), 1, module._sym_gen, 6, **options)
        loaded.bind(steps[0].provide_data, steps[0].provide_label)
        loaded.forward(steps[1], is_train=False)
        module.forward(steps[1], is_train=False)
        np.testing.assert_allclose(loaded.get_outputs()[0].asnumpy(), module.get_outputs()[0].asnumpy(), rtol=1e-11)


def test_each_bucket_has_gradients_of_its_own():
    results = []
    for lengths in ([6], [6, 3]):
        steps = sequence_batches(lengths)
        module, _ = train_buckets(lambda net: net, steps[:1], tofu.mod.BucketingModule, ngpus=2)
        module.forward_backward(steps[0])
        for step in steps[1:]:
            module.forward_backward(step)
        module.switch_bucket(6, steps[0].provide_data, steps[0].provide_label)
        module.update()
        results.append(parameters_of(module))
    assert largest_error(*results) == 0


def test_a_monitor_sees_every_bucket():
    steps = sequence_batches([6, 3])
    module = make_buckets(lambda net: net, tofu.mod.BucketingModule, ngpus=2)
    module.bind(steps[0].provide_data, steps[0].provide_label)
    module.init_params()
    monitor = mx.mon.Monitor(1, mx.nd.norm, pattern="t._state_output")
    module.install_monitor(monitor)
    for step, length in zip(steps, (6, 3), strict=True):
        monitor.tic()
        module.forward(step, is_train=True)
        assert [entry[1] for entry in monitor.toc()] == [f"t{t}_state_output" for t in range(length)]


def test_buckets_that_are_wrong_are_named():
    with pytest.raises(tofu.TofuError, match="needs default_bucket_key="):
        tofu.mod.BucketingModule(sequence_model, ngpus=2)
    module = make_buckets(lambda net: net, tofu.mod.BucketingModule, ngpus=2)
    with pytest.raises(tofu.TofuError, match="not bound"):
        module.switch_bucket(3, [], [])
    with pytest.raises(tofu.TofuError, match="needs sym_gen="):
        tofu.mod.BucketingModule.load_dict(default_bucket_key=6, ngpus=2)


def test_buckets_fit_and_score():
    steps = sequence_batches([6, 4, 6, 4])

    class Buckets(mx.io.DataIter):
        default_bucket_key, provide_data, provide_label = 6, steps[0].provide_data, steps[0].provide_label

        def __iter__(self):
            return iter(steps)

        def reset(self):
            pass

    results = []
    for apply in (lambda net: net, lambda net: tofu.partition(net, 4)):
        module = mx.mod.BucketingModule(
            lambda length, apply=apply: (apply(sequence_model(length)), ("data",), ("softmax_label",)), 6
        )
        mx.random.seed(3)
        module.fit(Buckets(), num_epoch=2, eval_metric="ce", initializer=mx.init.Xavier())
        results.append(module.score(Buckets(), ["acc", "ce"]))
    np.testing.assert_allclose(dict(results[1])["cross-entropy"], dict(results[0])["cross-entropy"], rtol=1e-6)
