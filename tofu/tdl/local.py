"""One worker's copy of an operator, for attributes that depend on the split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any as Anything
from typing import TypeAlias

from tofu.errors import DescriptionError


@dataclass(frozen=True)
class LocalTensor:
    """Tensor on one worker."""

    shape: tuple[int, ...]


class Local:
    """One worker's copy of an operator: the ranges of its index variables and the shapes of its tensors on this worker.

    Functions in `bound` receive it, and return the attribute of the copy:
    op(..., bound={"num_filter": lambda local: local.extent("g") * local.extent("co")}).

    Attributes
    ----------
    attributes
        The attributes of the operator on one device.
    asked
        The index variables whose extents the function has read.
    asked_shapes
        True if the function has read the shapes of inputs or outputs.
    """

    def __init__(
        self,
        attributes: Mapping[str, Anything],
        extents: Mapping[str, int],
        local_ranges: Mapping[str, tuple[int, int]],
        input_shapes: Sequence[Sequence[int]],
        output_shapes: Sequence[Sequence[int]],
    ) -> None:
        self.attributes = attributes
        self._extents = extents
        self._ranges = local_ranges
        self._inputs = tuple(LocalTensor(tuple(shape)) for shape in input_shapes)
        self._outputs = tuple(LocalTensor(tuple(shape)) for shape in output_shapes)
        self.asked: set[str] = set()
        self.asked_shapes = False

    @property
    def inputs(self) -> tuple[LocalTensor, ...]:
        """The inputs of this copy. For example, `local.inputs[0].shape` is the shape of a shard."""
        self.asked_shapes = True
        return self._inputs

    @property
    def outputs(self) -> tuple[LocalTensor, ...]:
        """The outputs of this copy."""
        self.asked_shapes = True
        return self._outputs

    def extent(self, variable: str) -> int:
        """Return the extent of an index variable on this worker."""
        whole = self.whole(variable)
        begin, end = self._ranges.get(variable, (0, whole))
        return end - begin

    def start(self, variable: str) -> int:
        """Return the first value of an index variable on this worker; 0 if the variable is not split."""
        return self._ranges.get(variable, (0, 0))[0]

    def whole(self, variable: str) -> int:
        """Return the extent of an index variable over all workers."""
        self.asked.add(variable)
        if variable not in self._extents:
            raise DescriptionError(f"{variable} is no index variable here; they are {', '.join(self._extents)}")
        return self._extents[variable]

    def has(self, variable: str) -> bool:
        """Return True if the description has such an index variable for these attributes and ranks."""
        return variable in self._extents

    def is_split(self, variable: str) -> bool:
        """Return True if this worker has only a part of the range of an index variable."""
        return variable in self._extents and self.extent(variable) != self._extents[variable]


Bound: TypeAlias = str | Callable[[Local], Anything]
"""Rule for an attribute of a worker's copy: the index variable whose extent it is, or a function of `Local`."""
