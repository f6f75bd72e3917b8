"""How the arrays of a parameter go between machines: in the shards that it had when the machines compared their plans.

A parameter of a Gluon block may lie elsewhere later, on one machine alone even: after a batch of another size, say. What is sent does not
change with it, since the machines would no longer send the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tofu.errors import UnsupportedError
from tofu.mxnet.runtime.arrays.parameter_array import ParameterArray, zeros_like
from tofu.mxnet.runtime.arrays.shards import Region, ShardedTensor


class AgreedLayout:
    """The shards in which machines exchange an array of a parameter; `layout` has their regions, and holds nothing."""

    def __init__(self, array: ParameterArray) -> None:
        self.layout = zeros_like(array.layout)

    def is_of(self, array: ParameterArray) -> bool:
        """Whether the array lies as it is sent."""
        return self.layout.matches(array.layout)

    def read(self, array: ParameterArray) -> ShardedTensor:
        """What the array holds, as it is sent: its own shards, or copies where those lie elsewhere.

        Raises UnsupportedError for an array that has another type by now.
        """
        array.before_use()
        tensor = array.tensor
        if tensor.dtype != self.layout.dtype:
            raise UnsupportedError(
                f"{array.name} has been cast to {tensor.dtype} since machines began to exchange it in {self.layout.dtype}. Cast the block "
                "before the first step, or make a Trainer anew."
            )
        if self.layout.matches(tensor):
            return tensor
        copies = zeros_like(self.layout)
        copies.scatter(tensor.gather())
        return copies

    @staticmethod
    def write(array: ParameterArray, tensor: ShardedTensor) -> None:
        """Have the array hold what a tensor holds, of which `read` has made it."""
        if tensor is not array.layout:
            array.layout.scatter(tensor.gather())
        array.note_change()


def agree(arrays: Mapping[int, ParameterArray]) -> tuple[dict[int, AgreedLayout], str]:
    """How each of the arrays is sent, as it lies now, and a text of that, in which machines with different plans differ."""
    agreed = {index: AgreedLayout(array) for index, array in arrays.items()}
    text = "\n".join(f"{index} {_list_regions(one.layout)} {one.layout.dtype}" for index, one in agreed.items())
    return agreed, text


def parameter_array(parameter: Any) -> ParameterArray | None:
    """The values of a parameter of Gluon's that lie in shards; None for any other, and before there are values."""
    values = parameter._data
    return values[0] if values and isinstance(values[0], ParameterArray) else None


def _list_regions(tensor: ShardedTensor) -> list[Region]:
    return [region for region, _ in tensor.list_distinct()]
