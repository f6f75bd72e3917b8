"""Layouts in which machines exchange the parameters of a Gluon block, agreed when the machines compare their plans.

Later the layout of a parameter may change on one machine alone, for example after a batch of another size. Machines
still exchange shards in the agreed layout, so that all send the same shards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tofu.errors import UnsupportedError
from tofu.mxnet.runtime.arrays.parameter_array import ParameterArray
from tofu.mxnet.runtime.arrays.shards import ShardedTensor


class ExchangeLayout:
    """Shards in which machines exchange an array. `layout` has their regions, without values."""

    def __init__(self, array: ParameterArray) -> None:
        self.layout = array.layout.zeros_like()

    def is_of(self, array: ParameterArray) -> bool:
        """Return True if the array has this layout now."""
        return self.layout.matches(array.layout)

    def read(self, array: ParameterArray) -> ShardedTensor:
        """Return the array's values in this layout: the array's shards, or copies.

        Raises UnsupportedError if the array's type has changed.
        """
        array.before_use()
        tensor = array.tensor
        if tensor.dtype != self.layout.dtype:
            raise UnsupportedError(
                f"{array.name} has been cast to {tensor.dtype} since machines began to exchange it in {self.layout.dtype}. Cast the block "
                "before the first step, or create a new Trainer."
            )
        return tensor.in_layout_of(self.layout)

    @staticmethod
    def write(array: ParameterArray, tensor: ShardedTensor) -> None:
        """Copy a tensor that `read` returned back into the array."""
        if tensor is not array.layout:
            array.layout.scatter(tensor.gather())
        array.note_change()


def agree(arrays: Mapping[int, ParameterArray]) -> tuple[dict[int, ExchangeLayout], str]:
    """Return each array's present layout, and a text that describes all layouts, to be compared between machines."""
    agreed = {index: ExchangeLayout(array) for index, array in arrays.items()}
    lines = []
    for index, exchange in agreed.items():
        distinct_regions = [exchange.layout.regions[worker] for worker in exchange.layout.owners]
        lines.append(f"{index} {distinct_regions} {exchange.layout.dtype}")
    return agreed, "\n".join(lines)


def parameter_array(parameter: Any) -> ParameterArray | None:
    """Return a Gluon parameter's values if they are sharded, else None."""
    values = parameter._data
    return values[0] if values and isinstance(values[0], ParameterArray) else None
