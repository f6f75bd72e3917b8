"""A model to measure: its symbol, the shapes of its inputs, and its weights, all from shapes alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import tofu  # noqa: F401  before MXNet
from tofu.analysis import OperatorAccess
from tofu.graph import Graph
from tofu.lowering import lower
from tofu.mxnet.engine import MXNET
from tofu.mxnet.frontend.read_symbol import find_labels, read_graph
from tofu.search import find_strategies

WEIGHT_BYTES = 4  # float32


@dataclass(frozen=True)
class Model:
    """A training symbol and the shapes of its inputs (labels are inferred)."""

    name: str
    symbol: Any
    shapes: Mapping[str, tuple[int, ...]]

    def read(self) -> tuple[Graph, tuple[OperatorAccess, ...]]:
        """The training graph with operators in parts, and the strategies of each: what a search problem is made of."""
        given = {*self.shapes, *find_labels(self.symbol)}
        learned = [name for name in self.symbol.list_arguments() if name not in given]
        graph = lower(read_graph(self.symbol, self.shapes, None, learned, learned).graph)
        return graph, find_strategies(graph, MXNET.front_end)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Parameter name -> shape: every argument that is neither an input nor a label."""
        shapes, _, _ = self.symbol.infer_shape(**self.shapes)
        named = zip(self.symbol.list_arguments(), shapes, strict=True)
        return {n: shape for n, shape in named if n not in self.shapes and not n.endswith("label")}

    def weight_bytes(self) -> int:
        """Bytes of all parameters."""
        return WEIGHT_BYTES * sum(prod(shape) for shape in self.weight_shapes().values())
