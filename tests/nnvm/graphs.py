"""Small MXNet symbols, graphs with fetches written as MXNet's JSON, and running them."""

import ctypes
import json

import mxnet as mx
import numpy as np

from tofu import _mxnet

# A default context that no node uses: MXNet fuses nodes of graphs without gradients only on the context cpu(0).
UNUSED = mx.cpu(1000)


def wrap(handle):
    return mx.sym.Symbol(ctypes.c_void_p(handle))


def training_graph(symbol, wrt):
    """Forward and backward pass. Takes the symbol, not its handle: a symbol must outlive the use of its handle."""
    return wrap(_mxnet.training_graph(symbol.handle.value, list(wrt)))


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
    """(names, their shapes, those that are trained) of a symbol."""
    names = symbol.list_arguments()
    found = dict(zip(names, symbol.infer_shape(**shapes)[0], strict=True))
    return names, found, [name for name in names if name not in ("data", "softmax_label")]


def random_arguments(shapes, seed, classes=8, dtype="float32"):
    rng = np.random.RandomState(seed)
    values = {name: rng.uniform(-0.3, 0.3, shape).astype(dtype) for name, shape in shapes.items()}
    if "softmax_label" in values:
        values["softmax_label"] = rng.randint(0, classes, shapes["softmax_label"]).astype(dtype)
    return values


def bind(symbol, contexts=None, types=None, **shapes):
    """Bind an execution graph; `contexts` says where the workers are, by group or by position."""
    if isinstance(contexts, int):
        contexts = {f"tofu_worker_{w}": mx.cpu(w) for w in range(contexts)}
    return symbol.simple_bind(UNUSED, grad_req="null", group2ctx=contexts, type_dict=types, **shapes)


def pieces_text(pieces):
    def numbers(values):
        return ",".join(map(str, values))

    return ";".join(
        f"{numbers(begin)}:{numbers(extent)}:" + "+".join(f"{source}@{numbers(at)}" for source, at in sources)
        for begin, extent, sources in pieces
    )


class JsonGraph:
    """A symbol written node by node, as MXNet's JSON."""

    def __init__(self):
        self.nodes = []

    def add(self, op, name, inputs=(), group=None, after=(), **attributes):
        """A node, which runs after its inputs and after the nodes `after`."""
        attrs = {key: str(value) for key, value in attributes.items()}
        if group is not None:
            attrs["__ctx_group__"] = group
        inputs = [[node, 0, 0] for node in inputs]
        self.nodes.append({"op": op, "name": name, "attrs": attrs, "inputs": inputs, "control_deps": list(after)})
        return len(self.nodes) - 1

    def fetch(self, name, inputs, shape, pieces, group=None, changed=(), **attributes):
        """A node of _tofu_multi_fetch; `changed` replaces attributes that follow from the arguments."""
        shape = f"({','.join(map(str, shape))},)"
        made = {"shape": shape, "num_args": len(inputs), "pieces": pieces_text(pieces)}
        return self.add("_tofu_multi_fetch", name, inputs, group, **attributes, **(made | dict(changed)))

    def symbol(self, *heads):
        arg_nodes = [i for i, node in enumerate(self.nodes) if node["op"] == "null"]
        graph = {
            "nodes": self.nodes,
            "arg_nodes": arg_nodes,
            "node_row_ptr": list(range(len(self.nodes) + 1)),
            "heads": [[head, 0, 0] for head in heads],
            "attrs": {"mxnet_version": ["int", 10901]},
        }
        return mx.sym.load_json(json.dumps(graph))


def count_copies(executor):
    return executor.debug_str().count("_CrossDeviceCopy")


def node_names(symbol):
    return [node["name"] for node in _mxnet.nodes(symbol.handle.value)]
