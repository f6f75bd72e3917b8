"""Read and write the shards that machines exchange for the parameters of a Gluon block.

A machine may later split a parameter in another way. It then converts its shards to the old split for each exchange.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tofu.errors import UnsupportedError
from tofu.mxnet.runtime.arrays.parameter_array import ParameterArray
from tofu.mxnet.runtime.arrays.shards import ShardedTensor


def read_shards(array: ParameterArray, layout: ShardedTensor) -> ShardedTensor:
    """Return the array's values, split like `layout`. Raise UnsupportedError if `layout` has another type."""
    array.before_use()
    tensor = array.tensor
    if tensor.dtype != layout.dtype:
        raise UnsupportedError(
            f"{array.name} has been cast to {tensor.dtype} since machines began to exchange it in {layout.dtype}. Cast the block "
            "before the first step, or create a new Trainer."
        )
    return tensor.in_layout_of(layout)


def write_shards(array: ParameterArray, tensor: ShardedTensor) -> None:
    """Copy a tensor from `read_shards` back into its array."""
    if tensor is not array.layout:
        array.layout.scatter(tensor.gather())
    array.note_change()


def describe_layouts(arrays: Mapping[int, ParameterArray]) -> tuple[dict[int, ShardedTensor], str]:
    """For each array, return an array of zeros with the same split. Also return a text that lists all splits."""
    layouts = {index: array.layout.zeros_like() for index, array in arrays.items()}
    lines = []
    for index, layout in layouts.items():
        distinct_regions = [layout.regions[worker] for worker in layout.owners]
        lines.append(f"{index} {distinct_regions} {layout.dtype}")
    return layouts, "\n".join(lines)


def parameter_array(parameter: Any) -> ParameterArray | None:
    """Return the array of a Gluon parameter, or None if the parameter is not split."""
    values = parameter._data
    return values[0] if values and isinstance(values[0], ParameterArray) else None
