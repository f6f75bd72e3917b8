import json

import mxnet as mx
import pytest

import tofu
from tests.models.plain import mlp


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


DATA, OTHER = mx.sym.Variable("data"), mx.sym.Variable("other")
UNDESCRIBED_SIGNATURES = {
    "windows outside": (
        mx.sym.Pooling(DATA, kernel=(2, 2), stride=(3, 3), pad=(1, 1), pooling_convention="full", pool_type="avg"),
        {"data": (2, 3, 5, 5)},
        "may lie outside the data",
    ),
    "offsets in groups": (
        mx.sym.contrib.DeformableConvolution(DATA, OTHER, kernel=(3, 3), num_filter=4, num_group=2, no_bias=True),
        {"data": (2, 4, 6, 6), "other": (2, 18, 4, 4)},
        "deformable convolution in groups",
    ),
    "a dimension of one element": (
        mx.sym.np.einsum("ij,jk->ik", DATA.as_np_ndarray(), OTHER.as_np_ndarray()),
        {"data": (4, 1), "other": (3, 5)},
        "has the extent 1",
    ),
}


@pytest.mark.parametrize("name", UNDESCRIBED_SIGNATURES)
def test_signatures_without_a_description(name):
    symbol, shapes, message = UNDESCRIBED_SIGNATURES[name]
    with pytest.raises(tofu.TofuError, match=f"(?s){message}.*replicate"):
        tofu.partition(symbol, 2, **shapes)
    options = {"undescribed": "replicate", "on_infeasible": "replicate"}
    assert tofu.partition(symbol, 2, **options, **shapes).plan.workers == 2


def test_a_model_without_arguments():
    symbol = tofu.partition(mx.sym.ones((4, 3)) + 2 * mx.sym.ones((4, 3)), 2)
    for executor in (symbol.simple_bind(mx.cpu()), symbol.bind(mx.cpu(), {})):
        assert executor.forward()[0].asnumpy().tolist() == [[3, 3, 3]] * 4
