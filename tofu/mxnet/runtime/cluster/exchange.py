"""Shards in which machines exchange the parameters of a Gluon block.

The machines agree on these shards when they compare their plans. Later one machine alone may split a parameter in
another way, for example after a batch of another size. It still sends the shards that were agreed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tofu.errors import UnsupportedError
from tofu.mxnet.runtime.arrays.parameter_array import ParameterArray
from tofu.mxnet.runtime.arrays.shards import ShardedTensor


class ExchangeLayout:
    """The shards in which machines exchange an array.

    `layout` is a tensor with the same regions, and values of no meaning.
    """

    def __init__(self, array: ParameterArray) -> None:
        self.layout = array.layout.zeros_like()

    def is_of(self, array: ParameterArray) -> bool:
        """Return True if the array is now split as the machines exchange it."""
        return self.layout.matches(array.layout)

    def read(self, array: ParameterArray) -> ShardedTensor:
        """Return the array's values as the shards to exchange. They may be copies.

        Raise UnsupportedError if the array's type has changed.
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
    """Return how each array is split at present, and a text about it that the machines can compare."""
    agreed = {index: ExchangeLayout(array) for index, array in arrays.items()}
    lines = []
    for index, exchange in agreed.items():
        distinct_regions = [exchange.layout.regions[worker] for worker in exchange.layout.owners]
        lines.append(f"{index} {distinct_regions} {exchange.layout.dtype}")
    return agreed, "\n".join(lines)


def parameter_array(parameter: Any) -> ParameterArray | None:
    """Return the values of a Gluon parameter if they are split over workers, otherwise None."""
    values = parameter._data
    return values[0] if values and isinstance(values[0], ParameterArray) else None
