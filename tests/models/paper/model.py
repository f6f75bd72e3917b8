from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import tofu  # noqa: F401  before MXNet
from tofu.mxnet.planning import read_trained
from tofu.pipeline import Observer, Task
from tofu.planning.settings import Settings

WEIGHT_BYTES = 4  # float32


@dataclass(frozen=True)
class PaperModel:
    name: str
    symbol: Any
    shapes: Mapping[str, tuple[int, ...]]

    def read(self, settings: Settings, observe: Observer | None = None) -> Task:
        return read_trained(self.symbol, self.shapes, settings, observe)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes, _, _ = self.symbol.infer_shape(**self.shapes)
        named = zip(self.symbol.list_arguments(), shapes, strict=True)
        return {n: shape for n, shape in named if n not in self.shapes and not n.endswith("label")}

    def weight_bytes(self) -> int:
        return WEIGHT_BYTES * sum(prod(shape) for shape in self.weight_shapes().values())
