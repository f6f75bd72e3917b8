import mxnet as mx
import pytest

import tofu
from tofu import PartitionedSymbol

DATA = mx.sym.Variable("data")


def build_net():
    return mx.sym.FullyConnected(mx.sym.FullyConnected(DATA, num_hidden=8, name="fc1"), num_hidden=4, name="fc2")


def test_plain_symbols_and_one_worker_stay_unchanged():
    partitioned = tofu.partition(build_net(), 2)
    assert (partitioned.whole * 2).list_arguments() == build_net().list_arguments()
    one_worker = tofu.partition(build_net(), 1)
    assert (one_worker * 2).list_arguments() == build_net().list_arguments()
    assert one_worker.as_np_ndarray().list_arguments() == build_net().list_arguments()
    assert mx.sym.Group([DATA * 2, mx.sym.sin(DATA)]).list_arguments() == ["data"]


PICKERS = {
    "an output": lambda symbol: symbol[0],
    "an output by name": lambda symbol: symbol["fc2_output"],
    "each output": lambda symbol: next(iter(symbol)),
    "a slice": lambda symbol: symbol[0:1],
    "an inner layer": lambda symbol: symbol.get_internals()["fc1_output"],
    "children": lambda symbol: symbol.get_children()["fc1_output"],
    "composed": lambda symbol: symbol(data=DATA * 2),
}


@pytest.mark.parametrize("pick", PICKERS.values(), ids=PICKERS)
def test_outputs_and_layers_stay_partitioned(pick):
    picked = pick(tofu.partition(build_net(), 2))
    assert isinstance(picked, PartitionedSymbol)
    expected = pick(build_net()).bind(mx.cpu(), draw_arguments(picked)).forward()[0].asnumpy()
    executor = picked.bind(mx.cpu(), draw_arguments(picked))
    assert executor.plan.workers == 2
    assert (executor.forward()[0].asnumpy() == expected).all()


def draw_arguments(symbol):
    """Draw small whole numbers, whose sums are exact."""
    shapes, _, _ = symbol.infer_shape(data=(4, 6))
    return {
        name: mx.nd.array([[n % 5 - 2 for n in range(shape[-1])]] * shape[0] if len(shape) == 2 else range(shape[0]))
        for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }
