"""Networks of Gluon's model zoo as symbols, with fewer channels, on small images."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mxnet as mx

from tests.models.plain import PlainModel

CLASSES = 7
NARROWING = 16
WIDTHS = ("num_filter", "num_hidden", "num_group")


@dataclass(frozen=True)
class Zoo:
    name: str
    batch: int = 9
    size: int = 48

    def build(self, dtype: str) -> PlainModel:
        """Dropout is off, since every device would draw its own numbers."""
        net = mx.gluon.model_zoo.vision.get_model(self.name, classes=CLASSES, prefix="net_")
        net = narrow(net(mx.sym.var("data", dtype=dtype)))
        shapes = {"data": (self.batch, 3, self.size, self.size)}
        return PlainModel(mx.sym.SoftmaxOutput(net, name="softmax", normalization="batch"), shapes, CLASSES)


def narrow(symbol: Any) -> Any:
    """Return the same layers with their widths divided, except for the number of classes.

    Types and shapes of parameters are removed, and the last average pooling covers the whole image.
    """
    graph = json.loads(symbol.tojson())
    for node in graph["nodes"]:
        attributes = node.get("attrs", {})
        if node["op"] == "null":
            attributes.clear()
        for width in WIDTHS:
            if int(attributes.get(width, 1)) > CLASSES:
                attributes[width] = str(-(-int(attributes[width]) // NARROWING))
        if node["op"] == "Pooling" and attributes["kernel"] in ("(7, 7)", "(8, 8)", "(13, 13)"):
            attributes["global_pool"] = "True"
        if node["op"] == "Dropout":
            attributes["p"] = "0"
    return mx.sym.load_json(json.dumps(graph))


NETWORKS = (Zoo("mobilenetv2_1.0", size=64), Zoo("resnet18_v1"), Zoo("squeezenet1.1", batch=10))

GLUON_MODELS: dict[str, Callable[[str], PlainModel]] = {network.name: network.build for network in NETWORKS}
