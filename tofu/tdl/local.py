"""The part of an operator that one worker (device) computes. The operator's attributes may depend on the part's size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any as Anything
from typing import TypeAlias

from tofu.errors import DescriptionError


@dataclass(frozen=True)
class LocalTensor:
    """A tensor as one worker stores it."""

    shape: tuple[int, ...]


class Local:
    """The part of an operator that one worker computes: ranges of index variables, and shapes of tensors.

    A function in `bound` (see `Registry.op`) receives this object, and returns the value of an attribute on this
    worker: op(..., bound={"num_filter": lambda local: local.extent("g") * local.extent("co")}).

    Attributes
    ----------
    attributes
        The attributes of the whole operator.
    read_variables
        The index variables whose lengths the function has read.
    has_read_shapes
        True if the function has read shapes of inputs or outputs.
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
        self.read_variables: set[str] = set()
        self.has_read_shapes = False

    @property
    def inputs(self) -> tuple[LocalTensor, ...]:
        """The worker's inputs. `local.inputs[0].shape` is the shape of the first input."""
        self.has_read_shapes = True
        return self._inputs

    @property
    def outputs(self) -> tuple[LocalTensor, ...]:
        """The worker's outputs."""
        self.has_read_shapes = True
        return self._outputs

    def extent(self, variable: str) -> int:
        """Return the number of values that the variable has on this worker."""
        whole = self.whole(variable)
        begin, end = self._ranges.get(variable, (0, whole))
        return end - begin

    def start(self, variable: str) -> int:
        """Return the variable's first value on this worker."""
        return self._ranges.get(variable, (0, 0))[0]

    def whole(self, variable: str) -> int:
        """Return the number of values that the variable has on all workers together."""
        self.read_variables.add(variable)
        if variable not in self._extents:
            raise DescriptionError(f"{variable} is no index variable here; they are {', '.join(self._extents)}")
        return self._extents[variable]

    def has(self, variable: str) -> bool:
        """Return True if the description uses this variable."""
        return variable in self._extents

    def is_split(self, variable: str) -> bool:
        """Return True if the variable's values are divided among workers."""
        return variable in self._extents and self.extent(variable) != self._extents[variable]


Bound: TypeAlias = str | Callable[[Local], Anything]
"""The value of an attribute on a worker: the length of an index variable, by name, or a function of `Local`."""
