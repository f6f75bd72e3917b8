"""Lowerings of operators: the parts that replace one operator of the semantic graph.

Parts are ordinary operators with descriptions, so search and program treat them like any others. The front
end has a table of the operators with a lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from tofu.graph import Operator, Tensor, TensorKind
from tofu.search.strategies import OperatorDescriptions

Attributes = Mapping[str, Any]
Inputs = Sequence[Tensor]
DimensionNames = tuple[tuple[str, ...], ...]


@dataclass
class Parts:
    """Parts of one operator, while its lowering adds them.

    `position` and `first_tensor` are the positions of the next operator and the next tensor in the lowered graph.
    """

    whole: Operator
    graph_tensors: tuple[Tensor, ...]
    position: int
    first_tensor: int
    operators: list[Operator] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)

    def shape(self, slot: int) -> tuple[int, ...]:
        """Return the shape of the operator's input `slot`."""
        return self.graph_tensors[self.whole.inputs[slot]].shape

    def output_shape(self, slot: int) -> tuple[int, ...]:
        """Return the shape of the operator's output `slot`."""
        return self.graph_tensors[self.whole.outputs[slot]].shape

    def inner_tensor(self, name: str, shape: tuple[int, ...], dtype: str = "float64") -> int:
        """Add a tensor between the parts, and return its position."""
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
        """Add a part before the last one.

        `names` are its dimensions' names in the whole operator, if its description names its axes otherwise.
        """
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
        """Add the part with the operator's name and outputs.

        `outputs` lists those that its kernel writes, if no operator reads the others.
        """
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
    """Lowering of an operator.

    Attributes
    ----------
    expand
        Adds the parts.
    as_whole
        Returns the operator in its whole form, with the inputs that its kernel updates without the framework declaring
        it.
    in_inference
        Returns the attributes that describe the operator in inference.
    is_possible
        Returns True if an operator can be lowered, given its attributes and inputs.
    """

    expand: Callable[[Parts], None]
    as_whole: Callable[[Operator], Operator] = _same_operator
    in_inference: Callable[[Attributes], Attributes] = _same_attributes
    is_possible: Callable[[Operator, Inputs], bool] = _always


Lowerings = Mapping[str, Lowering]
"""Lowerings by operator; some apply only to certain attributes."""


class LowerableOperators(OperatorDescriptions, Protocol):
    """A framework's operators, as far as lowerings and strategies depend on them."""

    @property
    def lowerings(self) -> Lowerings:
        """The lowerings, by operator."""


def find_lowering(lowerings: Lowerings, operator: Operator, tensors: Sequence[Tensor]) -> Lowering | None:
    """Return the lowering of an operator over the graph's `tensors`, or None if only its own kernel exists."""
    lowering = lowerings.get(operator.op)
    if lowering is None:
        return None
    inputs = [tensors[position] for position in operator.inputs]
    return lowering if lowering.is_possible(operator, inputs) else None
