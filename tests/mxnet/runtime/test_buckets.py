import mxnet as mx
import numpy as np

import tofu
from tests.shared.module_runs import BATCH, CLASSES, assert_all_close, largest_error, parameters_of


def sequence_model(length):
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
    batches = []
    for length in lengths:
        data = mx.nd.array(rng.randint(0, 20, (BATCH, length)), dtype="float64")
        label = mx.nd.array(rng.randint(0, CLASSES, BATCH), dtype="float64")
        provided = {
            "provide_data": [mx.io.DataDesc("data", data.shape, "float64")],
            "provide_label": [mx.io.DataDesc("softmax_label", label.shape, "float64")],
        }
        batches.append(mx.io.DataBatch([data], [label], bucket_key=length, **provided))
    return batches


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


def test_mxnets_buckets_over_partitioned_symbols_train_as_on_one_device():
    steps = sequence_batches([6, 3, 4, 3, 6, 2, 4, 6, 3])
    single, expected = train_buckets(lambda net: net, steps)
    module, outputs = train_buckets(lambda net: tofu.partition(net, 4), steps)
    assert_all_close(outputs, expected, rtol=1e-9)
    assert largest_error(parameters_of(module), parameters_of(single)) < 1e-10
    bound = {key: bucket._exec_group.execs[0] for key, bucket in module._buckets.items()}
    assert sorted(bound) == [2, 3, 4, 6]
    whole = bound[6].arg_dict["h2h_weight"]
    assert all(executor.arg_dict["h2h_weight"] is whole for executor in bound.values())  # one copy on the host


def test_tofus_buckets_train_as_on_one_device_and_save_for_mxnet(tmp_path):
    steps = sequence_batches([6, 3, 4, 3, 6])
    single, expected = train_buckets(lambda net: net, steps)
    module, outputs = train_buckets(lambda net: net, steps, tofu.mod.BucketingModule, ngpus=3)
    assert_all_close(outputs, expected, rtol=1e-9)
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
