import ctypes
import json

import mxnet as mx
from mxnet._ctypes.ndarray import _imperative_invoke
from mxnet.base import _LIB, check_call

# A default context that no node uses: MXNet fuses nodes of graphs without gradients only on the context cpu(0).
UNUSED = mx.cpu(1000)


def bind(symbol, contexts=None, types=None, **shapes):
    """Bind an execution graph. `contexts` are the devices of the workers, by group or by position."""
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


def invoke(name, inputs, attributes, out=None):
    handle = ctypes.c_void_p()
    check_call(_LIB.NNGetOpHandle(name.encode(), ctypes.byref(handle)))
    values = list(map(str, attributes.values()))
    with mx.autograd.train_mode():
        found = _imperative_invoke(handle.value, inputs, list(attributes), values, out, False, False)
    return found if isinstance(found, list) else [found]


class JsonGraph:
    def __init__(self):
        self.nodes = []

    def add(self, op, name, inputs=(), group=None, after=(), **attributes):
        attrs = {key: str(value) for key, value in attributes.items()}
        if group is not None:
            attrs["__ctx_group__"] = group
        inputs = [[node, 0, 0] for node in inputs]
        self.nodes.append({"op": op, "name": name, "attrs": attrs, "inputs": inputs, "control_deps": list(after)})
        return len(self.nodes) - 1

    def fetch(self, name, inputs, shape, pieces, group=None, changed=(), **attributes):
        """Add a node of _tofu_multi_fetch. `changed` replaces attributes that follow from the arguments."""
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
