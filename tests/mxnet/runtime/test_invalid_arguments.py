import json

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.models.plain import mlp


@pytest.fixture
def model():
    return mlp()


@pytest.mark.parametrize(
    ("workers", "shape"),
    [(np.int64(4), (12, 17)), (2, [12, 17]), (2, np.array([12, 17])), (2, (np.int32(12), 17)), (36, (12, 17)), (29, (29, 17))],
)  # fmt: skip
def test_workers_and_shapes_may_be_lists_and_numpy_integers(model, workers, shape):
    assert tofu.partition(model.symbol, workers, data=shape).plan.workers == workers


def test_a_partitioned_symbol_keeps_its_workers(model):
    symbol = tofu.partition(model.symbol, 2)
    assert tofu.mod.Module(symbol, ngpus=2).symbol is symbol
    assert tofu.mod.Module(symbol, context=mx.cpu()).symbol is symbol


def test_simple_bind_ignores_unknown_options_with_a_warning(model, caplog):
    symbol = tofu.partition(model.symbol, 2)
    symbol.simple_bind(mx.cpu(), data=(12, 17), layout="NC")
    assert "simple_bind ignores layout" in caplog.text
    assert np.isfinite(symbol.simple_bind(mx.cpu(), data=(12, 17)).forward()[0].asnumpy()).all()


def test_groups_placed_by_hand_keep_the_context_of_whole_arrays(caplog):
    with mx.AttrScope(ctx_group="first"):
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc0")
    with mx.AttrScope(ctx_group="second"):
        net = mx.sym.FullyConnected(net, num_hidden=4, name="fc1")
    groups = {"first": mx.cpu(1), "second": mx.cpu(2)}
    executor = tofu.partition(net, 2).simple_bind(mx.cpu(), group2ctx=groups, data=(4, 6))
    assert executor.arg_dict["fc0_weight"].context == mx.cpu(1)
    assert executor.grad_dict["fc1_weight"].context == mx.cpu(2)
    assert "the plan decides which worker computes what" in caplog.text
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((4, 4)))
    assert tofu.memory_report(net, 2, data=(4, 6)).one_device.pool_bytes > 0


def test_an_infeasible_model_may_be_replicated(caplog):
    net = mx.sym.FullyConnected(mx.sym.Variable("data", shape=(1, 1)), num_hidden=1, name="fc")
    with pytest.raises(tofu.InfeasibleError, match="3 workers cannot be fed"):
        tofu.partition(net, 3).simple_bind(mx.cpu(), data=(1, 1))
    symbol = tofu.partition(net, 3, on_infeasible="replicate")
    assert symbol.verify(data=(1, 1)).agrees
    assert "3 workers cannot be fed" in caplog.text


def test_operator_without_a_description(descriptions):
    del descriptions["khatri_rao"]
    net = mx.sym.khatri_rao(mx.sym.Variable("a"), mx.sym.Variable("b"), name="odd")
    with pytest.raises(tofu.UndescribedOperatorError, match=r"(?s)tofu\.op.*replicate.*khatri_rao, used by odd"):
        tofu.partition(net, 2, for_training=False, a=(4, 4), b=(4, 4))


def broken_symbol(change):
    value = json.loads(mlp().symbol.tojson())
    change(value)
    return mx.sym.load_json(json.dumps(value))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: value["nodes"][-1]["inputs"][0].__setitem__(1, 77), "takes output number 77 of"),
        (lambda value: value["heads"][0].__setitem__(1, 77), "the model takes output number 77"),
        (lambda value: value["nodes"][-1].__setitem__("inputs", []), "has other inputs than its operator needs"),
        (
            lambda value: value["nodes"][-1]["inputs"][0].__setitem__(0, len(value["nodes"]) - 1),
            "is an input of itself",
        ),
    ],
    ids=["output", "head", "none", "itself"],
)
def test_broken_edges(change, message):
    """MXNet loads these symbols and reads outside of its memory."""
    symbol = broken_symbol(change)
    with pytest.raises(tofu.TofuError, match=f"(?s)The symbol is broken.*{message}"):
        tofu.partition(symbol, 2, data=(12, 17))


def test_a_model_without_arguments():
    symbol = tofu.partition(mx.sym.ones((4, 3)) + 2 * mx.sym.ones((4, 3)), 2)
    for executor in (symbol.simple_bind(mx.cpu()), symbol.bind(mx.cpu(), {})):
        assert executor.forward()[0].asnumpy().tolist() == [[3, 3, 3]] * 4
