"""The cost model of kernels: seconds from arithmetic, bytes and the number of calls.

Where nothing was measured, a kernel takes the longer of its arithmetic and its memory traffic (the roofline), after its call. A
contraction keeps all arithmetic units busy only where it has enough tiles for them and enough depth to fill their pipelines:
    efficiency = tiles / (units * ceil(tiles / units)) * depth / (depth + half_depth)
A tile is so many cells of the result and `LONGEST_DEPTH` of what each adds up: libraries divide long sums where a result has few cells.
Kernels of a kind that was measured on the machine take what was fitted to it:
    seconds = call + a * contracted operations + b * other operations + c * bytes + d * bytes beyond the cache
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

LONGEST_DEPTH = 1024  # that one arithmetic unit adds up where others would idle
FETCH, UPDATE = "fetch", "update"  # kinds beside the names of operators

THIN = " of one column"  # of kinds, see `Computed.is_thin`
WORD = re.compile(r"[a-z_]+")


def name_kind(op: str, attributes: Mapping[str, Any]) -> str:
    """The kind of a kernel: its operator, with those of its attributes that are words ("tanh"), since these choose between functions.

    >>> name_kind("Activation", {"act_type": "tanh", "num_args": "1"})
    'Activation(tanh)'
    """
    words = [str(value) for _, value in sorted(attributes.items()) if WORD.fullmatch(str(value))]
    return f"{op}({', '.join(words)})" if words else op


@dataclass(frozen=True)
class KernelRates:
    """What was fitted to kernels of one kind: seconds of a call, of a contracted operation, of another one, of a byte, and what a byte
    takes longer that does not fit into the cache.

    `error`: the median relative error of the fit over the kernels that it was fitted to.
    """

    call: float
    contracted: float
    other: float
    byte: float
    far_byte: float
    error: float = 0.0


@dataclass(frozen=True)
class Rates:
    """What a device does in a second.

    Attributes
    ----------
    contracted, other
        Operations per second of contractions and of all else, by type of the result; a type that is not named is as "float32".
    memory
        Bytes per second of the device's own memory.
    call, call_of_several
        Seconds from one kernel to the next on a busy device, and where several devices wait for each other.
    units, tile, half_depth
        Of the efficiency of contractions: arithmetic units, cells of a result that one of them takes at a time, and the depth at which
        they reach half of their speed. `units` is 0 where that is not modelled.
    cache
        Bytes that lie near a processor: more of them take longer.
    measured
        What was fitted, by kind of kernel (`name_kind`).
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
        """Seconds of a contraction's arithmetic that has so many `cells` of a result and adds up `depth` products in each."""
        peak = self.contracted.get(dtype, self.contracted["float32"])
        return operations / (peak * self._find_efficiency(cells, depth))

    def compute(self, operations: float, dtype: str) -> float:
        """Seconds of other arithmetic."""
        return operations / self.other.get(dtype, self.other["float32"])

    def _find_efficiency(self, cells: int, depth: int) -> float:
        if not self.units or not cells:
            return 1.0
        tiles = cells / self.tile * max(1.0, depth / LONGEST_DEPTH)
        # What is less than a tile keeps one unit busy, if not all of it.
        busy = max(tiles, min(1.0, cells / self.tile)) / (self.units * ceil(tiles / self.units))
        return busy * depth / (depth + self.half_depth)
