"""Cost model of kernels: seconds from arithmetic, bytes and the number of calls.

An unmeasured kernel takes the longer of its arithmetic and its memory traffic (the roofline), after its call. A
contraction only uses all arithmetic units if it has enough tiles for them and enough depth to fill their pipelines:
    efficiency = tiles / (units * ceil(tiles / units)) * depth / (depth + half_depth)
A tile is a number of elements of the result, with `LONGEST_DEPTH` products each: libraries divide long sums if a result
has few elements. A measured kind of kernel takes what was fitted to it:
    seconds = call + a * contracted operations + b * other operations + c * bytes + d * bytes beyond the cache
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

LONGEST_DEPTH = 1024  # longest sum of one arithmetic unit while others would idle
FETCH, UPDATE = "fetch", "update"  # kinds beside the names of operators

THIN = " of one column"  # suffix of kinds, see `Computed.is_thin`
WORD = re.compile(r"[a-z_]+")


def name_kind(op: str, attributes: Mapping[str, Any]) -> str:
    """Return the kind of a kernel: its operator, with attributes that are words ("tanh"), because these select functions.

    >>> name_kind("Activation", {"act_type": "tanh", "num_args": "1"})
    'Activation(tanh)'
    """
    words = [str(value) for _, value in sorted(attributes.items()) if WORD.fullmatch(str(value))]
    return f"{op}({', '.join(words)})" if words else op


@dataclass(frozen=True)
class KernelRates:
    """Fitted seconds of one kind of kernel, by call, contracted operation, other operation, byte, and byte beyond the cache.

    `error` is the median relative error of the fit on its own samples.
    """

    call: float
    contracted: float
    other: float
    byte: float
    far_byte: float
    error: float = 0.0


@dataclass(frozen=True)
class Rates:
    """Rates of a device.

    Attributes
    ----------
    contracted, other
        Operations per second of contractions and of other arithmetic, by result type. Missing types are like "float32".
    memory
        Bytes per second of the device's own memory.
    call, call_of_several
        Seconds between kernels on a busy device, and between kernels when several devices wait for each other.
    units, tile, half_depth
        Efficiency of contractions: arithmetic units, elements of a result per tile, and the depth at which they reach
        half their speed. With 0 `units` it is not modelled.
    cache
        Bytes of cache near a processor. More bytes take longer.
    measured
        Fitted rates by kind of kernel (`name_kind`).
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

    def contract(self, operations: int, cells: int, depth: int, dtype: str) -> float:
        """Return the seconds of a contraction's arithmetic, with `cells` elements of a result and `depth` products in each."""
        peak = self.contracted.get(dtype, self.contracted["float32"])
        return operations / (peak * self._find_efficiency(cells, depth))

    def compute(self, operations: float, dtype: str) -> float:
        """Return the seconds of other arithmetic."""
        return operations / self.other.get(dtype, self.other["float32"])

    def _find_efficiency(self, cells: int, depth: int) -> float:
        if not self.units or not cells:
            return 1.0
        tiles = cells / self.tile * max(1.0, depth / LONGEST_DEPTH)
        # Less than a tile keeps one unit partly busy.
        busy = max(tiles, min(1.0, cells / self.tile)) / (self.units * ceil(tiles / self.units))
        return busy * depth / (depth + self.half_depth)
