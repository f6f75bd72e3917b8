"""A step as a flat list of equations: what remains of a jaxpr when calls are inlined and scans unrolled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import numpy as np


@dataclass(frozen=True)
class ValueType:
    """The type of a value. `dtype` is JAX's own, which may be that of random keys."""

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool = False

    @property
    def is_key(self) -> bool:
        """Whether it is a random key, which has no numbers."""
        return bool(jax.dtypes.issubdtype(self.dtype, jax.dtypes.extended))

    @property
    def item_bytes(self) -> int:
        """Bytes of an element; of a key, those of its data."""
        if not self.is_key:
            return int(np.dtype(self.dtype).itemsize)
        data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), self.dtype))
        return int(data.size * data.dtype.itemsize)

    def with_shape(self, *shape: int) -> ValueType:
        """The same type with another shape."""
        return ValueType(shape, self.dtype, self.weak_type)


def read_type(aval: Any) -> ValueType:
    """The type of an abstract value, or of an array."""
    return ValueType(tuple(aval.shape), aval.dtype, bool(getattr(aval, "weak_type", False)))


@dataclass(frozen=True)
class Literal:
    """A number in the place of an operand."""

    value: np.ndarray[Any, Any]
    type: ValueType

    @property
    def number(self) -> int | float:
        """It as Python's."""
        number = self.value.item()
        return int(number) if isinstance(number, (bool, int)) else float(number)


Operand: TypeAlias = "int | Literal"
"""The number of a value, or a literal."""


@dataclass(frozen=True)
class Equation:
    """A primitive with its parameters.

    Attributes
    ----------
    scope
        Functions, named scopes and transformations around it, as a path.
    line
        The line of the user's program that made it.
    checkpoint
        The number of the `jax.checkpoint` that computes it again in the backward pass, None outside of any. What lowers the step has to
        keep the equations of one apart, or XLA finds that they were computed before.
    """

    primitive: Any
    params: Mapping[str, Any]
    inputs: tuple[Operand, ...]
    outputs: tuple[int, ...]
    scope: str = ""
    line: str = ""
    checkpoint: int | None = None

    def __str__(self) -> str:
        shown = (str(x.value) if isinstance(x, Literal) else f"v{x}" for x in self.inputs)
        return f"{', '.join(f'v{n}' for n in self.outputs)} = {self.primitive.name}({', '.join(shown)})"

    def compute(self, operands: Sequence[Any]) -> list[Any]:
        """The results for concrete operands, literals among them."""
        results = self.primitive.bind(*operands, **self.params)
        return list(results) if self.primitive.multiple_results else [results]


@dataclass(frozen=True)
class Step:
    """A step: values are numbered, and `types` has the type of each. `constants` are those that the program brings along."""

    types: tuple[ValueType, ...]
    equations: tuple[Equation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[Operand, ...]
    constants: Mapping[int, Any]

    def __str__(self) -> str:
        return "\n".join(map(str, self.equations))

    def compute_all(self, arguments: Sequence[Any]) -> dict[int, Any]:
        """Every value, equation by equation."""
        values: dict[int, Any] = dict(zip(self.inputs, arguments, strict=True)) | dict(self.constants)
        for equation in self.equations:
            operands = [x.value if isinstance(x, Literal) else values[x] for x in equation.inputs]
            values.update(zip(equation.outputs, equation.compute(operands), strict=True))
        return values

    def compute(self, arguments: Sequence[Any]) -> list[Any]:
        """The results: to compare with those of the step as it was written."""
        values = self.compute_all(arguments)
        return [x.value if isinstance(x, Literal) else values[x] for x in self.outputs]
