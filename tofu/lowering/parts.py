"""What a lowering is: the parts that take the place of one operator of the semantic graph.

Parts are ordinary operators with descriptions of their own, so the search prices them, and the emission writes them, like any others.
Which operators have a lowering, the front end says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from tofu.graph import Operator, Tensor, TensorKind
from tofu.search.strategies import Operators

Attributes = Mapping[str, Any]
Inputs = Sequence[Tensor]
DimensionNames = tuple[tuple[str, ...], ...]


@dataclass
class Parts:
    """What one operator is made of, while its lowering writes it down.

    `position` and `first_tensor` are where the next operator and the next tensor of the lowered graph will stand.
    """

    whole: Operator
    graph_tensors: tuple[Tensor, ...]
    position: int
    first_tensor: int
    operators: list[Operator] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)

    def shape(self, slot: int) -> tuple[int, ...]:
        """The shape of the operator's input `slot`."""
        return self.graph_tensors[self.whole.inputs[slot]].shape

    def output_shape(self, slot: int) -> tuple[int, ...]:
        """The shape of the operator's output `slot`."""
        return self.graph_tensors[self.whole.outputs[slot]].shape

    def inner_tensor(self, name: str, shape: tuple[int, ...], dtype: str = "float64") -> int:
        """A new tensor between the parts; its position."""
        full_name, item_bytes = f"{self.whole.name}/{name}", np.dtype(dtype).itemsize
        self.tensors.append(Tensor(full_name, shape, dtype, item_bytes, TensorKind.INTERMEDIATE, is_inner=True))
        return self.first_tensor + len(self.tensors) - 1

    def inner_operator(
        self,
        name: str,
        op: str,
        attributes: Attributes,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        origin: Any = None,
        names: DimensionNames = (),
    ) -> None:
        """A part that comes before the last one; `names` are those of its dimensions, where its description calls its axes otherwise."""
        full_name = f"{self.whole.name}/{name}"
        self._add(full_name, op, attributes, inputs, outputs, (), is_inner=True, origin=origin, names=names)

    def last_operator(
        self,
        op: str,
        attributes: Attributes,
        inputs: tuple[int, ...],
        mutates: tuple[int, ...] = (),
        outputs: tuple[int, ...] | None = None,
        origin: Any = None,
        names: DimensionNames = (),
    ) -> None:
        """The part that has the operator's name and outputs, or those `outputs` alone that its kernel writes: nobody reads the others."""
        outputs = self.whole.outputs if outputs is None else outputs
        name = self.whole.name
        self._add(name, op, attributes, inputs, outputs, mutates, is_inner=False, origin=origin, names=names)

    def _add(
        self,
        name: str,
        op: str,
        attributes: Attributes,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        mutates: tuple[int, ...],
        is_inner: bool,
        origin: Any = None,
        names: DimensionNames = (),
    ) -> None:
        part = replace(
            self.whole,
            name=name,
            op=op,
            attributes=dict(attributes),
            inputs=inputs,
            outputs=outputs,
            mutates=mutates,
            ignored=(),
            leader=self.position if self.operators else None,
            is_inner=is_inner,
            origin=origin,
            dimension_names=names,
        )
        self.operators.append(part)


def _same_operator(operator: Operator) -> Operator:
    return operator


def _same_attributes(attributes: Attributes) -> Attributes:
    return attributes


def _always(operator: Operator, inputs: Inputs) -> bool:
    return True


@dataclass(frozen=True)
class Lowering:
    """How one of the framework's operators is lowered.

    Attributes
    ----------
    expand
        Writes down the parts.
    as_whole
        The operator where it stays whole, with all that its own kernel does and the framework does not say: inputs that it changes.
    in_inference
        The attributes that describe what the operator does in inference, where those differ.
    is_possible
        Whether an operator can be lowered, by its attributes and its inputs.
    """

    expand: Callable[[Parts], None]
    as_whole: Callable[[Operator], Operator] = _same_operator
    in_inference: Callable[[Attributes], Attributes] = _same_attributes
    is_possible: Callable[[Operator, Inputs], bool] = _always


Lowerings = Mapping[str, Lowering]
"""By operator: those that have a lowering, at some of their attributes."""


class LowerableOperators(Operators, Protocol):
    """What lowering needs to know of a framework's operators, beside what finding strategies does."""

    @property
    def lowerings(self) -> Lowerings:
        """The lowerings, by operator."""


def find_lowering(lowerings: Lowerings, operator: Operator, tensors: Sequence[Tensor]) -> Lowering | None:
    """The lowering of an operator over the graph's `tensors`, or None where its own kernel is all there is."""
    lowering = lowerings.get(operator.op)
    if lowering is None:
        return None
    inputs = [tensors[position] for position in operator.inputs]
    return lowering if lowering.is_possible(operator, inputs) else None
