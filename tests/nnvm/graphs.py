import mxnet as mx

import tofu
from tofu import _mxnet
from tofu.mxnet.frontend.read_symbol import wrap_symbol


def training_graph(symbol, wrt):
    """The symbol must outlive the use of its handle."""
    return wrap_symbol(_mxnet.training_graph(symbol.handle.value, list(wrt)))


def emit(symbol, workers, **options):
    return tofu.partition(symbol, workers, cache=False, **options).planned().training.symbol


def mlp(hidden=24, layers=2, bias=True, classes=8):
    x = mx.sym.Variable("data")
    for i in range(layers):
        x = mx.sym.FullyConnected(x, num_hidden=hidden, name=f"fc{i}", no_bias=not bias)
        x = mx.sym.Activation(x, act_type="tanh", name=f"act{i}")
    x = mx.sym.FullyConnected(x, num_hidden=classes, name="out", no_bias=not bias)
    return mx.sym.SoftmaxOutput(x, name="softmax")


def cnn():
    data = mx.sym.Variable("data")
    x = mx.sym.Convolution(data, num_filter=8, kernel=(3, 3), pad=(1, 1), name="conv")
    x = mx.sym.BatchNorm(x, name="bn", fix_gamma=False)
    a = mx.sym.Activation(x, act_type="relu", name="act")
    x = mx.sym.Convolution(a, num_filter=8, kernel=(3, 3), pad=(1, 1), name="conv2") + a
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=10, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def arguments_of(symbol, **shapes):
    names = symbol.list_arguments()
    found = dict(zip(names, symbol.infer_shape(**shapes)[0], strict=True))
    return names, found, [name for name in names if name not in ("data", "softmax_label")]


def count_copies(executor):
    return executor.debug_str().count("_CrossDeviceCopy")
