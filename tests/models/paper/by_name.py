from __future__ import annotations

import re
from collections.abc import Callable

from tests.models.paper.model import PaperModel
from tests.models.paper.rnn import rnn
from tests.models.paper.transformer import transformer
from tests.models.paper.wresnet import BLOCKS, STEM_FILTERS, wresnet

FORMS = "wresnet-LAYERS-WIDTH (50, 101 or 152 layers), rnn-LAYERS-CELLS (rnn-8-8k) or transformer-LAYERS"
HIDDEN, HEADS, FEATURES = 1024, 16, 512
MEASURED: dict[str, Callable[[], PaperModel]] = {
    "WResNet-152-10": lambda: wresnet(152, 10, 8),
    "RNN-10-8K": lambda: rnn(10, 8192, 128),
    "Transformer-12": lambda: transformer(12),
    "Transformer-24": lambda: transformer(24),
}
"""The models whose plans are measured and pinned."""


def build_model(name: str, batch: int, scale: int = 1) -> PaperModel:
    if scale < 1:
        raise ValueError(f"The scale is {scale}; it divides the widths of layers, so it is 1 or more.")
    if found := re.fullmatch(r"wresnet-(\d+)-(\d+)", name.lower()):
        layers, width = map(int, found.groups())
        if layers in BLOCKS:
            return wresnet(layers, width, batch, base=_divide(STEM_FILTERS, scale, "filters of the first layer"))
    if found := re.fullmatch(r"rnn-(\d+)-(\d+)(k?)", name.lower()):
        cells = int(found[2]) * (1024 if found[3] else 1)
        return rnn(int(found[1]), _divide(cells, scale, "cells"), batch, features=_divide(FEATURES, scale, "features"))
    if found := re.fullmatch(r"transformer-(\d+)", name.lower()):
        heads = _divide(HEADS, scale, "heads")
        return transformer(int(found[1]), HIDDEN // scale, heads, batch)
    raise ValueError(f"There is no model {name!r}: give {FORMS}.")


def _divide(width: int, scale: int, what: str) -> int:
    if width % scale:
        raise ValueError(f"{width} {what} cannot be divided by the scale {scale}: give a divisor of {width}.")
    return width // scale
