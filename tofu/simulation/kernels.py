"""Predict the time of a kernel from its operations, its bytes and the time of a call.

The predicted time is the time of the call, plus the time for arithmetic or memory, whichever is longer (the roofline
model). A contraction, such as a matrix product, is fast only if it has many tiles, and enough depth (products per
element of the result):

    efficiency = tiles / (units * ceil(tiles / units)) * depth / (depth + half_depth)

A tile is a block of elements of the result with `LONGEST_DEPTH` products each. If the result has few elements,
libraries divide longer sums into several tiles.

A machine's file may have rates that were fitted to measurements of some kinds of kernels. For these kinds the time is

    seconds = call + a * contracted operations + b * other operations + c * bytes + d * bytes beyond the cache
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

LONGEST_DEPTH = 1024  # longer sums use several units if some are idle
FETCH, UPDATE = "fetch", "update"  # kinds of nodes that do not run an operator's kernel
THIN = " of one column"  # see `Computed.is_thin`
_WORD = re.compile(r"[a-z_]+")


def name_kind(op: str, attributes: Mapping[str, Any]) -> str:
    """Return a name for the kind of a kernel, from its operator and attributes.

    >>> name_kind("Activation", {"act_type": "tanh", "num_args": "1"})
    'Activation(tanh)'
    """
    words = [str(value) for _, value in sorted(attributes.items()) if _WORD.fullmatch(str(value))]
    return f"{op}({', '.join(words)})" if words else op


@dataclass(frozen=True)
class KernelRates:
    """The measured speed of one kind of kernel: seconds per call, operation and byte.

    `error` is the median relative error of the predicted times.
    """

    call: float
    contracted: float
    other: float
    byte: float
    far_byte: float
    error: float = 0.0


@dataclass(frozen=True)
class Rates:
    """Speed of a device.

    Attributes
    ----------
    contracted, other
        Operations per second for each type, such as "float32". `contracted` is for contractions such as matrix
        products, and `other` for other arithmetic. Types that are not listed are as fast as "float32".
    memory
        Bytes per second of the device's memory.
    call, call_of_several
        The overhead of a kernel call in seconds, on one device and on several.
    units
        The number of arithmetic units. With 0 units, all contractions run at full speed.
    tile
        The number of elements in a tile (a block of the result).
    half_depth
        The number of products per element at which a contraction runs at half speed.
    cache
        Bytes of a processor's cache.
    measured
        The measured rates of each kind of kernel (`name_kind`).
    """

    contracted: Mapping[str, float]
    other: Mapping[str, float]
    memory: float
    call: float
    call_of_several: float
    units: int = 0
    tile: int = 1
    half_depth: float = 0.0
    cache: int = 1 << 62
    measured: Mapping[str, KernelRates] = field(default_factory=dict)

    def contract(self, operations: int, elements: int, depth: int, dtype: str) -> float:
        """Return the seconds for `elements` sums of `depth` products each."""
        peak = self.contracted.get(dtype, self.contracted["float32"])
        return operations / (peak * self._find_efficiency(elements, depth))

    def compute(self, operations: float, dtype: str) -> float:
        """Return the seconds for `operations` other than sums of products."""
        return operations / self.other.get(dtype, self.other["float32"])

    def _find_efficiency(self, elements: int, depth: int) -> float:
        if not self.units or not elements:
            return 1.0
        tiles = elements / self.tile * max(1.0, depth / LONGEST_DEPTH)
        # A result smaller than one tile keeps one unit partly busy.
        busy_share = max(tiles, min(1.0, elements / self.tile)) / (self.units * ceil(tiles / self.units))
        return busy_share * depth / (depth + self.half_depth)
