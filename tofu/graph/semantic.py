"""The semantic graph: the operators, tensors and attributes of one training step, as a frozen value.

Front ends build the graph from the user's model. Analysis, search and plans use only this graph. Operators are in an
executable order and refer to tensors by number. At most one operator writes a tensor. *Variables* are tensors that no
operator writes: arguments, auxiliary states (such as moving statistics) and head gradients.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any


class Phase(enum.IntEnum):
    """The phase of a training step in which an operator runs."""

    FORWARD = 0
    BACKWARD = 1
    UPDATE = 2


class TensorKind(enum.Enum):
    """The role of a tensor in the model."""

    INPUT = "input"  # data and labels, passed at each step
    PARAMETER = "parameter"  # a learned or fixed argument
    AUXILIARY = "auxiliary"  # a state that operators update in place, such as moving statistics
    HEAD_GRADIENT = "head gradient"  # the gradient of an output, passed between forward and backward
    INTERMEDIATE = "intermediate"  # the output of an operator
    CARRY = "carry"  # a value that a loop passes to its next iteration, or its value after the loop


@dataclass(frozen=True)
class Tensor:
    """A tensor of the graph.

    Attributes
    ----------
    shape, dtype
        The shape of the whole tensor in elements, and NumPy's name of the type.
    is_inner
        True if `tofu.lowering` added the tensor to the user's model. Plans do not list it.
    times
        Number of transfers in a training step: 1, or the number of iterations of the tensor's loop.
    addends
        The number of iterations if a loop sums the tensor before the transfer, otherwise 1.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    item_bytes: int
    kind: TensorKind
    is_inner: bool = False
    times: int = 1
    addends: int = 1

    @property
    def size_bytes(self) -> int:
        """The bytes of the whole tensor."""
        return prod(self.shape) * self.item_bytes

    @property
    def moved_item_bytes(self) -> int:
        """The bytes of one element, times the number of transfers in a training step."""
        return self.item_bytes * self.times

    @property
    def exists_before_step(self) -> bool:
        """True for arguments and other tensors that exist before the step begins."""
        return self.kind not in (TensorKind.INTERMEDIATE, TensorKind.CARRY)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Operator:
    """An operator of the graph.

    Attributes
    ----------
    forward
        For a backward operator, the number of its forward operator, or None.
    stateful
        True if the operator reads a hidden state that the forward operator saved. Both get the same split.
    mutates
        The positions of inputs that the operator updates in place.
    ignored
        The positions of inputs whose elements the operator does not read.
    annotations
        Names of attributes that do not affect the results.
    sums_gradients
        True if the operator adds up the gradients of a tensor that several operators read.
    leader
        For a later *part*, the number of the first part. Parts are smaller operators that replace one operator
        (`tofu.lowering`).
    is_inner
        True for all parts except the last. Plans do not list inner parts.
    is_added
        True if the front end added the operator to the user's model. Plans list such operators.
    origin
        Data for the framework's backend.
    dimension_names
        Names for each tensor's dimensions, or "". They also become names of axes.
    scope
        Path of the operator in the user's model, such as `encoder/block_0`.
    is_gradient
        True if the operator computes gradients, although `forward` is None.
    """

    name: str
    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    phase: Phase
    forward: int | None = None
    stateful: bool = False
    mutates: tuple[int, ...] = ()
    ignored: tuple[int, ...] = ()
    annotations: frozenset[str] = frozenset()
    sums_gradients: bool = False
    leader: int | None = None
    is_inner: bool = False
    is_added: bool = False
    origin: Any = None
    dimension_names: tuple[tuple[str, ...], ...] = ()
    find_line: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    scope: str = field(default="", compare=False, repr=False)
    is_gradient: bool = field(default=False, compare=False, repr=False)

    @property
    def line(self) -> str:
        """The line of the user's program as `file:line`; "" if the line is unknown."""
        return "" if self.find_line is None else self.find_line()

    @property
    def full_name(self) -> str:
        """The operator's name, followed by the line of the user's program if it is known."""
        return f"{self.name} at {self.line}" if self.line else self.name

    def __str__(self) -> str:
        return f"{self.name} ({self.op})"


class SourceLines(Mapping[str, str]):
    """The line of each operator in the user's program, by the operator's name."""

    def __init__(self, operators: tuple[Operator, ...] = ()) -> None:
        self._find_line_by_name = {
            operator.name: operator.find_line
            for operator in operators
            if operator.find_line is not None and not operator.is_inner
        }

    def __getitem__(self, name: str) -> str:
        return self._find_line_by_name[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._find_line_by_name)

    def __len__(self) -> int:
        return len(self._find_line_by_name)

    def __repr__(self) -> str:
        return repr(dict(self))


@dataclass(frozen=True)
class Carry:
    """A value that a loop passes from one iteration to the next.

    Attributes
    ----------
    tensor
        The tensor that the body of the loop reads.
    values
        Two tensors: the value for the first iteration, and the value that an iteration passes to the next. Both are
        split like `tensor`.
    last
        The tensor with the value after the loop, split like `tensor`.
    """

    tensor: int
    values: tuple[int, ...]
    last: int


@dataclass(frozen=True)
class Graph:
    """All operators and tensors of a training step, or of an inference step.

    Attributes
    ----------
    outputs
        The numbers of the tensors that the model returns.
    gradients
        The gradients of arguments: {3: 9} if tensor 9 is the gradient of tensor 3. Two arguments may share a gradient.
    updated
        The numbers of the arguments that an optimizer updates after the step. Each is split like its gradient.
    next_values
        The new values of variables: {4: 12} if tensor 12 replaces tensor 4 after the step. Both have the same split.
    carries
        The values that loops pass from one iteration to the next. The graph contains the body of a loop once.
    """

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[int, ...]
    gradients: Mapping[int, int] = field(default_factory=dict)
    updated: frozenset[int] = frozenset()
    next_values: Mapping[int, int] = field(default_factory=dict)
    carries: tuple[Carry, ...] = ()

    @cached_property
    def updates(self) -> tuple[tuple[int, int], ...]:
        """Pairs of tensors that need the same split: a variable and its gradient, or a variable and its next value."""
        gradients = ((variable, self.gradients[variable]) for variable in sorted(self.updated))
        carried_values = ((carry.tensor, value) for carry in self.carries for value in carry.values)
        return (*gradients, *sorted(self.next_values.items()), *carried_values)

    @cached_property
    def results(self) -> frozenset[int]:
        """Outputs, gradients, next values of variables, and values for the next iteration of a loop."""
        carried_values = (value for carry in self.carries for value in carry.values)
        return frozenset((*self.outputs, *self.gradients.values(), *self.next_values.values(), *carried_values))

    @cached_property
    def variables(self) -> tuple[int, ...]:
        """The numbers of the tensors that no operator writes."""
        return tuple(n for n, tensor in enumerate(self.tensors) if tensor.kind is not TensorKind.INTERMEDIATE)

    @property
    def is_training(self) -> bool:
        """True if the graph computes gradients or next values of variables."""
        return bool(self.gradients or self.next_values)

    @cached_property
    def tensor_index(self) -> dict[str, int]:
        """The number of each tensor, by name."""
        return {tensor.name: position for position, tensor in enumerate(self.tensors)}

    @cached_property
    def operator_index(self) -> dict[str, int]:
        """The number of each operator, by name."""
        return {operator.name: position for position, operator in enumerate(self.operators)}

    @cached_property
    def named_parts(self) -> tuple[int, ...]:
        """For each operator, the number of the operator that plans list in its place.

        If operators 3, 4 and 5 replace one operator of the model, this is 5 for all three.
        """
        last_part_by_leader = {
            operator.leader: position
            for position, operator in enumerate(self.operators)
            if operator.leader is not None and not operator.is_inner
        }
        return tuple(
            last_part_by_leader.get(position if operator.leader is None else operator.leader, position)
            for position, operator in enumerate(self.operators)
        )

    @cached_property
    def written_in_place(self) -> frozenset[int]:
        """The tensors that operators update in place."""
        return frozenset(operator.inputs[position] for operator in self.operators for position in operator.mutates)

    @cached_property
    def tensor_labels(self) -> tuple[int, ...]:
        """A number for each tensor. Tensors have the same number if only their names differ."""
        return tuple(
            make_label(tensor.kind, tensor.shape, tensor.dtype, *([tensor.times] if tensor.times > 1 else []))
            for tensor in self.tensors
        )

    @cached_property
    def operator_labels(self) -> tuple[int, ...]:
        """A number for each operator. Operators have the same number if only their names differ."""
        return tuple(
            make_label(o.op, sorted(o.attributes.items()), [self.tensors[t].shape for t in (*o.inputs, *o.outputs)])
            for o in self.operators
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of names, operators, attributes, shapes, types and edges."""
        digest = hashlib.sha256()
        for tensor in self.tensors:
            digest.update(f"T{tensor}|{tensor.kind.value}\n".encode())
        for operator in self.operators:
            attributes = sorted(operator.attributes.items())
            digest.update(f"O{operator}|{attributes}|{operator.inputs}|{operator.outputs}|{operator.phase}\n".encode())
        digest.update(f"{self.outputs}|{sorted(self.gradients.items())}|{sorted(self.updated)}".encode())
        if self.next_values:
            digest.update(f"|{sorted(self.next_values.items())}".encode())
        if self.carries:
            digest.update(f"|{self.carries}|{[tensor.times for tensor in self.tensors]}".encode())
        if any(tensor.addends > 1 for tensor in self.tensors):
            digest.update(f"|{[(tensor.times, tensor.addends) for tensor in self.tensors]}".encode())
        return digest.hexdigest()[:32]

    def __str__(self) -> str:
        lines = []
        for operator in self.operators:
            inputs = ", ".join(self.tensors[position].name for position in operator.inputs)
            outputs = ", ".join(str(self.tensors[position]) for position in operator.outputs)
            lines.append(f"{operator.phase.name.lower():8} {outputs} = {operator.op}({inputs})")
        return "\n".join(lines)


def make_label(*values: object) -> int:
    """Return a number that is the same for equal `values` in all processes."""
    return int.from_bytes(hashlib.blake2b(repr(values).encode(), digest_size=8).digest(), "little")
