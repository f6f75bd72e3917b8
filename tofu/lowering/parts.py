"""Lowerings: rules that replace an operator, the *whole* operator, by smaller operators, the *parts*."""

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
    """The smaller operators, or *parts*, that replace the operator `whole`.

    In the new graph, `position` is the number of the first part, and `first_tensor` is the number of the first new
    tensor.
    """

    whole: Operator
    graph_tensors: tuple[Tensor, ...]
    position: int
    first_tensor: int
    operators: list[Operator] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of an input of the replaced operator. `number` 0 is the first input."""
        return self.graph_tensors[self.whole.inputs[number]].shape

    def output_shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of an output of the replaced operator. `number` 0 is the first output."""
        return self.graph_tensors[self.whole.outputs[number]].shape

    def inner_tensor(self, name: str, shape: tuple[int, ...], dtype: str = "float64") -> int:
        """Add a tensor that connects two parts. Return its number."""
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
        """Add a smaller operator. For the last one, call `last_operator` instead.

        `names` are the `Operator.dimension_names` of the new operator.
        """
        full_name = f"{self.whole.name}/{name}"
        self._add(full_name, op, attributes, inputs, outputs, is_inner=True, origin=origin, dimension_names=names)

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
        """Add the last smaller operator. It takes the name and the outputs of the replaced operator.

        If it writes only some of these outputs, pass them as `outputs`.
        """
        outputs = self.whole.outputs if outputs is None else outputs
        name = self.whole.name
        self._add(name, op, attributes, inputs, outputs, mutates=mutates, origin=origin, dimension_names=names)

    def _add(
        self,
        name: str,
        op: str,
        attributes: Attributes,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        mutates: tuple[int, ...] = (),
        **others: Any,
    ) -> None:
        leader = self.position if self.operators else None
        part = replace(self.whole, name=name, op=op, inputs=inputs, outputs=outputs, mutates=mutates, **others)
        self.operators.append(replace(part, attributes=dict(attributes), ignored=(), leader=leader))


@dataclass(frozen=True)
class Lowering:
    """A rule that replaces an operator by several smaller operators.

    Attributes
    ----------
    expand
        Function that adds the smaller operators to a `Parts` object.
    as_whole
        Function that returns the operator to run if the rule is not used.
    in_inference
        Function that changes the operator's attributes for inference.
    is_possible
        Function that returns True if the rule applies to an operator with these attributes and inputs.
    """

    expand: Callable[[Parts], None]
    as_whole: Callable[[Operator], Operator] = lambda operator: operator
    in_inference: Callable[[Attributes], Attributes] = lambda attributes: attributes
    is_possible: Callable[[Operator, Inputs], bool] = lambda operator, inputs: True


Lowerings = Mapping[str, Lowering]
"""The lowerings of a framework's operators, by name."""


class LowerableOperators(OperatorDescriptions, Protocol):
    """Rules to split a framework's operators, or to replace them by smaller operators."""

    @property
    def lowerings(self) -> Lowerings:
        """For each operator name, the rule that replaces the operator by smaller operators. By default, no rule."""
        return {}


def find_lowering(lowerings: Lowerings, operator: Operator, tensors: Sequence[Tensor]) -> Lowering | None:
    """Return the rule that replaces an operator by smaller operators, or None."""
    lowering = lowerings.get(operator.op)
    inputs = [tensors[position] for position in operator.inputs]
    return lowering if lowering is not None and lowering.is_possible(operator, inputs) else None
