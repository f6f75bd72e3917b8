"""Symbolic input tensors, which the function of a description receives."""

from __future__ import annotations

import sympy

from tofu.errors import DescriptionError, NotAffineError
from tofu.tdl import expression as tdl
from tofu.tdl.place import find_place


class Tensor:
    """An input of a description: `t[i, j + 1]` is an element, `t.shape[d]` a length, `t.ndim` the number of dimensions.

    Lengths are symbols. With op(..., concrete=True), they are numbers.
    """

    def __init__(
        self, name: str, position: int, extents_are_one: tuple[bool, ...], concrete: tuple[int, ...] | None = None
    ) -> None:
        self.name = name
        self.position = position
        self._extents_are_one = extents_are_one
        dimensions = range(len(extents_are_one))
        self.extents: tuple[tdl.ExtentSymbol, ...] = tuple(tdl.extent_symbol(f"{name}.shape[{d}]") for d in dimensions)
        self.shape: tuple[tdl.Index | int, ...] = concrete or tuple(tdl.Index(extent) for extent in self.extents)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._extents_are_one)

    def is_one(self, dimension: int) -> bool:
        """Return True if `dimension` has length 1."""
        return self._extents_are_one[dimension]

    def broadcast(self, *indices: tdl.Index) -> tdl.Value:
        """Broadcast the tensor as NumPy does, and return the element at `indices`."""
        own_indices = indices[len(indices) - self.ndim :]
        if len(indices) < self.ndim:
            raise DescriptionError(
                f"{find_place()}: {self.name} has {self.ndim} dimensions and is broadcast to {len(indices)} indices"
            )
        element = self[tuple(0 if self.is_one(d) else i for d, i in enumerate(own_indices))]
        assert isinstance(element, tdl.Value)
        return element

    def __getitem__(self, key: object) -> tdl.Element | tdl.TensorSlice:
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) != self.ndim:
            raise DescriptionError(
                f"{find_place()}: {self.name} has {self.ndim} dimensions and is indexed with {len(keys)}"
            )
        indices = tuple(self._read_index(d, k) for d, k in enumerate(keys))
        if any(index is None for index in indices):
            return tdl.TensorSlice(self, indices)
        return tdl.Element(self, tuple(index for index in indices if index is not None))

    def _read_index(self, dimension: int, key: object) -> tdl.AnyIndex | None:
        if isinstance(key, slice):
            if key != slice(None):
                raise DescriptionError(
                    f"{find_place()}: only whole slices, `:`, are supported, not {key} of {self.name}"
                )
            return None
        if isinstance(key, (tdl.WholeDimension, tdl.AnyOf)):
            return key
        if isinstance(key, tdl.Value):
            raise NotAffineError(
                f"{find_place()}: dimension {dimension} of {self.name} is indexed by data. Write Any(...) around "
                "the index: the whole dimension is then read"
            )
        return tdl.as_index(key)

    def __repr__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.shape))}]"


def is_single_variable(index: object, variable: sympy.Symbol) -> bool:
    """Return True if the expression `index` is just `variable`."""
    return isinstance(index, tdl.Index) and index.expression == variable
