import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu import _core

BATCH, WIDTH = 12, 32


def network():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=WIDTH, name="fc0")
    net = mx.sym.Dropout(net, p=0.5, name="drop")
    return mx.sym.FullyConnected(net, num_hidden=6, name="fc1")


def masked_network():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=WIDTH, name="fc0")
    return mx.sym.FullyConnected(net * mx.sym.Variable("mask"), num_hidden=6, name="fc1")


class DropoutRun:
    def __init__(self, hints, seed=5):
        self.executor = tofu.bind(
            tofu.partition(network(), 4, hints=hints), type_dict={"data": "float64"}, data=(BATCH, WIDTH)
        )
        self.masks = {}
        self.executor.set_monitor_callback(self.record_mask)
        rng = np.random.RandomState(0)
        self.values = {name: rng.uniform(-1, 1, v.shape) for name, v in self.executor.variables.items()}
        for name, variable in self.executor.variables.items():
            variable.scatter(self.values[name])
        mx.random.seed(seed)
        self.executor.forward(is_train=True)
        self.executor.backward()
        mx.nd.waitall()
        self.output = self.executor.output(0).gather().asnumpy()
        graph = self.executor.partition.graph
        names = [graph.tensors[position].name for position in graph.gradients]
        self.gradients = {name: self.executor.gradient(name).gather().asnumpy() for name in names}

    def record_mask(self, name, array):
        name = name.decode() if isinstance(name, bytes) else name
        if name.startswith("drop@") and name.endswith("_mask"):
            worker = int(name[len("drop@") : -len("_mask")])
            handle = mx.base.ctypes.cast(array, mx.base.NDArrayHandle)
            self.masks[worker] = mx.nd.NDArray(handle, writable=False).asnumpy()

    def whole_mask(self):
        problem, choices = self.executor.partition.problem, self.executor.partition.choices
        position = problem.graph.operator_index["drop"]
        splits = choices.operators[position].tolist()
        boxes = _core.worker_boxes(problem.native, list(problem.factors), "operator", position, splits)
        whole = np.full((BATCH, WIDTH), np.nan)
        for worker, box in enumerate(boxes):
            whole[tuple(slice(begin, end) for begin, end in box)] = self.masks[worker]
        assert not np.isnan(whole).any()
        return whole


@pytest.mark.parametrize("hints", [{"drop": "i0"}, {"drop": "i1"}, {"drop": ("i0", "i1")}])
def test_outputs_and_gradients_use_the_drawn_masks(hints):
    run = DropoutRun(hints)
    mask = run.whole_mask()
    single = masked_network().simple_bind(
        mx.cpu(), type_dict={"data": "float64", "mask": "float64"}, data=(BATCH, WIDTH), mask=(BATCH, WIDTH)
    )
    for name, value in run.values.items():
        if name in single.arg_dict:
            single.arg_dict[name][:] = value
    single.arg_dict["mask"][:] = mask
    single.forward(is_train=True)
    single.backward([mx.nd.array(run.values["_head_grad_0"], dtype="float64")])
    np.testing.assert_allclose(run.output, single.outputs[0].asnumpy(), rtol=1e-12, atol=1e-13)
    for name, gradient in run.gradients.items():
        np.testing.assert_allclose(gradient, single.grad_dict[name].asnumpy(), rtol=1e-12, atol=1e-13)


def test_masks_differ_between_workers():
    masks = list(DropoutRun({"drop": "i0"}).masks.values())
    assert len(masks) == 4
    assert all((mask != other).any() for i, mask in enumerate(masks) for other in masks[:i])
    assert 0.3 < np.mean([mask > 0 for mask in masks]) < 0.7


def test_a_seeded_run_repeats_and_another_seed_differs():
    first, again, other = DropoutRun({"drop": "i0"}), DropoutRun({"drop": "i0"}), DropoutRun({"drop": "i0"}, seed=6)
    assert (first.output == again.output).all()
    assert all((first.gradients[name] == again.gradients[name]).all() for name in first.gradients)
    assert (first.output != other.output).any()


RECURRENCE = mx.sym.RNN(
    *map(mx.sym.Variable, ("data", "parameters", "state")), state_size=3, num_layers=2, p=0.5, mode="gru", name="drop"
)


def masked_weight(shape):
    mask = mx.sym.Dropout(mx.sym.Variable("weight", shape=shape), p=0.5, name="drop")
    product = mx.sym.FullyConnected(
        mx.sym.Variable("data"), weight=mask, num_hidden=shape[0], no_bias=True, name="product"
    )
    return mx.sym.Group([mx.sym.MakeLoss(product), mx.sym.BlockGrad(mask)])


@pytest.mark.parametrize("algorithm", ["exact", "data-parallel"])
def test_a_mask_of_a_replicated_tensor_is_drawn_once(algorithm):
    symbol = tofu.partition(masked_weight((8, 6)), 4, algorithm=algorithm, data=(12, 6))
    executor = symbol.simple_bind(mx.cpu(), data=(12, 6))
    for array in executor.arg_dict.values():
        array[:] = 1
    for _ in range(5):
        product, mask = (output.asnumpy() for output in executor.forward(is_train=True))
        executor.backward()
        np.testing.assert_array_equal(product, np.ones((12, 6)) @ mask.T)
        np.testing.assert_array_equal(executor.grad_dict["weight"].asnumpy(), 12 * mask)


@pytest.mark.parametrize(
    ("symbol", "options"),
    [
        (masked_weight((3, 2)), {}),
        (masked_weight((3, 2)), {"algorithm": "data-parallel"}),
        (mx.sym.shuffle(mx.sym.Variable("data") * 2, name="drop"), {"undescribed": "replicate"}),
        (mx.sym.LeakyReLU(mx.sym.Variable("data") * 2, act_type="rrelu", name="drop"), {"undescribed": "replicate"}),
        (mx.sym.Group([RECURRENCE, mx.sym.sin(mx.sym.Variable("other"))]), {"other": (16, 16)}),
    ],
)  # fmt: skip
def test_replicated_random_operators_are_refused(symbol, options):
    shape = (5, 4, 8) if "other" in options else (16, 2)
    with pytest.raises(
        tofu.InfeasibleError,
        match=r"drop \(\w+\) draws random numbers for .* but each draws its own. Use (one device|\d workers), or",
    ):
        tofu.partition(symbol, 8, data=shape, **options)


def test_dropout_is_ignored_in_inference():
    assert tofu.partition(masked_weight((3, 2)), 8, for_training=False, data=(16, 2)).plan.workers == 8
