"""Gluon's model zoo as symbols: the published networks, layer for layer, with every width divided and on small images."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mxnet as mx

from tests.models.plain import Model

CLASSES = 7
WIDTHS = ("num_filter", "num_hidden", "num_group")


@dataclass(frozen=True)
class Zoo:
    """A network of the zoo: what its widths are divided by, and the batch and size of its images."""

    name: str
    narrowing: int = 16
    batch: int = 9
    size: int = 48

    def build(self, dtype: str) -> Model:
        """The network with a softmax over its classes. Dropout drops nothing, since every device draws its own numbers."""
        net = mx.gluon.model_zoo.vision.get_model(self.name, classes=CLASSES, prefix="net_")
        net = narrow(net(mx.sym.var("data", dtype=dtype)), self.narrowing)
        shapes = {"data": (self.batch, 3, self.size, self.size)}
        return Model(mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch"), shapes, CLASSES)


def narrow(symbol: Any, narrowing: int) -> Any:
    """The same layers with their widths divided, but for that of the classes.

    Types and shapes that Gluon states for parameters go, as does the size of the images, in what the last average pooling covers.
    """
    graph = json.loads(symbol.tojson())
    for node in graph["nodes"]:
        attributes = node.get("attrs", {})
        if node["op"] == "null":
            attributes.clear()
        for width in WIDTHS:
            if int(attributes.get(width, 1)) > CLASSES:
                attributes[width] = str(-(-int(attributes[width]) // narrowing))
        if node["op"] == "Pooling" and attributes["kernel"] in ("(7, 7)", "(8, 8)", "(13, 13)"):
            attributes["global_pool"] = "True"
        if node["op"] == "Dropout":
            attributes["p"] = "0"
    return mx.sym.load_json(json.dumps(graph))


NETWORKS = (
    Zoo("alexnet", size=63),
    Zoo("densenet121", narrowing=8, batch=8, size=32),
    Zoo("inceptionv3", batch=8, size=107),
    Zoo("mobilenet1.0", size=64),
    Zoo("mobilenetv2_1.0", size=64),
    Zoo("resnet18_v1"),
    Zoo("resnet50_v1", batch=8),
    Zoo("resnet34_v2", batch=8),
    Zoo("resnet50_v2", batch=10),
    Zoo("squeezenet1.0"),
    Zoo("squeezenet1.1", batch=10),
    Zoo("vgg11", size=32),
    Zoo("vgg16_bn", batch=8, size=32),
)

GLUON_MODELS: dict[str, Callable[[str], Model]] = {network.name: network.build for network in NETWORKS}
