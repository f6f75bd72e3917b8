import mxnet as mx
import pytest

from tests.equality.comparison import compare_split
from tests.models.plain import PlainModel
from tests.shared.random_plans import Taken, feasible_axes
from tests.shared.training import bind_partitioned

numpy, extension = mx.sym.np, mx.sym.npx


def variable(name):
    return mx.sym.Variable(name).as_np_ndarray()


class Reader(mx.gluon.HybridBlock):
    def __init__(self):
        super().__init__(prefix="reader_")
        nn = mx.gluon.nn
        with self.name_scope():
            self.embed = nn.Embedding(30, 12)
            self.convolve = nn.Conv1D(12, 3, padding=1)
            self.normalize = nn.BatchNorm(axis=1)
            self.scale = nn.LayerNorm()
            self.wide = nn.Dense(24, flatten=False, activation="relu")
            self.guess = nn.Dense(5, flatten=False)

    def hybrid_forward(self, F, tokens):
        net = self.embed(tokens)
        net = F.np.swapaxes(F.np.concatenate([net, F.np.sin(net)], axis=-1), 1, 2)
        net = F.np.swapaxes(self.normalize(self.convolve(net)), 1, 2)
        net = self.scale(F.npx.relu(net))
        shares = F.npx.softmax(F.np.matmul(net, F.np.swapaxes(net, 1, 2)), axis=-1)
        net = F.np.matmul(shares, net)
        net = F.npx.leaky_relu(net, act_type="gelu") + net * F.np.exp(-F.np.square(net))
        one, other = F.np.split(self.wide(net), 2, axis=-1)
        net = F.np.maximum(one, 0.1 * other)
        net = F.np.mean(F.np.where(net > 0.2, net, net * 0.5), axis=1)
        net = net / F.np.sqrt(F.np.sum(F.np.square(net), axis=-1, keepdims=True) + 1e-3)
        net = F.npx.reshape(F.np.tile(F.np.expand_dims(net, 1), (1, 2, 1)), (-2, -1))
        return F.npx.log_softmax(self.guess(F.np.clip(net, -1, 1)), axis=-1)


def gluon_model() -> PlainModel:
    """A hybrid block of the NumPy interface, called with a symbol."""
    with mx.util.np_shape(True), mx.util.np_array(True):
        block = Reader()
        block.hybridize()
        block.cast("float64")
        loss = -extension.pick(block(variable("data")), variable("softmax_label"), axis=-1)
    return PlainModel(mx.sym.MakeLoss(loss.as_nd_ndarray(), name="loss"), {"data": (8, 10), "softmax_label": (8,)}, 5)


def test_a_block_equals_one_device():
    compare_split(gluon_model(), 8, steps=2, randoms=3, taken=Taken())


def build_deviations() -> PlainModel:
    data = variable("data") * mx.sym.Variable("scale_weight", shape=(5, 4)).as_np_ndarray()
    found = [
        numpy.var(data, axis=(0, 2), ddof=1, keepdims=True),
        numpy.std(data, axis=1),
        numpy.var(data),
        numpy.std(data, axis=(0, 1), ddof=2),
        numpy.mean(data, axis=(0, 2)),
    ]
    loss = mx.sym.MakeLoss(mx.sym.sin(data.as_nd_ndarray()))
    outputs = [loss, *(mx.sym.BlockGrad((array * 2).as_nd_ndarray()) for array in found)]
    return PlainModel(mx.sym.Group(outputs), {"data": (6, 5, 4)}, 5)


@mx.util.use_np_shape
def test_deviations_equal_one_device():
    model = build_deviations()
    partition = bind_partitioned(model, 3, "float64").partition
    names = [
        operator.name for operator in partition.graph.operators if operator.op in ("_npi_var", "_npi_std", "_npi_mean")
    ]
    assert len(names) == 5
    for name in names:
        axes = list(feasible_axes(partition, name))
        assert any("r" in axis for axis in axes)
        for axis in axes:
            compare_split(model, 3, {name: axis})


def build_scalars() -> PlainModel:
    data = variable("data") * mx.sym.Variable("scale_weight", shape=(6, 4)).as_np_ndarray()
    found = [
        numpy.sum(data),
        numpy.prod(numpy.cos(data)),
        numpy.max(data),
        numpy.trace(data),
        numpy.squeeze(numpy.sum(data, axis=(0, 1), keepdims=True)),
        numpy.mean(data) / numpy.sum(numpy.exp(data)),
    ]
    loss = numpy.expand_dims(sum(number * (i + 1) for i, number in enumerate(found)), 0)
    outputs = mx.sym.MakeLoss(loss.as_nd_ndarray()), mx.sym.BlockGrad(data.as_nd_ndarray())
    return PlainModel(mx.sym.Group(outputs), {"data": (6, 4)}, 5)


@mx.util.use_np_shape
@pytest.mark.parametrize("workers", [2, 3])
def test_scalars_equal_one_device(workers):
    compare_split(build_scalars(), workers, steps=2, randoms=2)
