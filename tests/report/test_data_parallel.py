import mxnet as mx

import tofu
from tofu.formatting import format_bytes
from tofu.report.data_parallel import describe_data_parallel


def describe(net, **options):
    return describe_data_parallel(tofu.partition(net, 4, **options).planned())


def build_cnn():
    net = mx.sym.Variable("data")
    for number in range(3):
        net = mx.sym.Convolution(net, num_filter=64, kernel=(3, 3), pad=(1, 1), name=f"conv{number}")
        net = mx.sym.Activation(net, act_type="relu")
    net = mx.sym.Pooling(net, global_pool=True, kernel=(1, 1), pool_type="avg")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=10, name="fc"), name="softmax")


def test_data_parallelism_is_recommended_if_it_moves_less():
    net, shapes = build_cnn(), {"data": (256, 3, 32, 32)}
    found = describe(net, **shapes)
    moved = tofu.partition(net, 4, algorithm="data-parallel", **shapes).plan.communication_bytes
    own = tofu.partition(net, 4, **shapes).plan.communication_bytes
    assert found.startswith(f"Data parallelism would move {format_bytes(moved)}, {1 - moved / own:.0%} less")
    assert "--memory-limit" in found


def test_no_advice_if_the_plan_moves_no_more():
    net, shapes = build_cnn(), {"data": (256, 3, 32, 32)}
    assert describe(net, replicate="free", **shapes) == ""
    layer = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1024, name="fc")
    assert describe(mx.sym.SoftmaxOutput(layer, name="softmax"), data=(16, 1024)) == ""
