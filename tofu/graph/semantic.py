"""The semantic graph: operators, tensors and attributes of one training step, frozen.

An engine's front end builds it (`tofu.mxnet.frontend`, `tofu.jax.frontend`); strategies, search and plans know no other
form of the step. Operators are in an executable order, and refer to tensors by position. A tensor has at most one
producer. Variables (arguments, auxiliary states, head gradients) have none, and neither has a tensor that no operator
reads or writes (`tofu.lowering`).
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
    """When an operator runs within a training step. Fetched regions are shared within one phase only."""

    FORWARD = 0
    BACKWARD = 1
    UPDATE = 2


class TensorKind(enum.Enum):
    """Role of a tensor in the model."""

    INPUT = "input"  # data and labels, fed at each step
    PARAMETER = "parameter"  # a learned or fixed argument
    AUXILIARY = "auxiliary"  # a state that operators update in place (moving statistics)
    HEAD_GRADIENT = "head gradient"  # the gradient of an output, fed between forward and backward
    INTERMEDIATE = "intermediate"  # the output of an operator
    CARRY = "carry"  # a loop's carry, or its value after the last step


@dataclass(frozen=True)
class Tensor:
    """Tensor of the graph.

    Attributes
    ----------
    shape, dtype
        The shape of the whole tensor in elements, and NumPy's name of the type.
    is_inner
        True if it passes between the parts of a lowered operator (`tofu.lowering`). The model does not have it, and
        plans do not name it.
    times
        How often it gets new values in a training step: once, or in each step of a loop. It is transferred as often.
    addends
        The number of successive values that are summed before each transfer.
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
        """Bytes of the whole tensor."""
        return prod(self.shape) * self.item_bytes

    @property
    def moved_item_bytes(self) -> int:
        """Bytes per element that a training step transfers if it transfers each new value."""
        return self.item_bytes * self.times

    @property
    def is_given(self) -> bool:
        """True if the tensor exists before the step begins."""
        return self.kind not in (TensorKind.INTERMEDIATE, TensorKind.CARRY)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Operator:
    """Operator of the graph.

    Attributes
    ----------
    forward
        Position of the forward operator of a backward operator, if the framework provides it.
    stateful
        True for a backward operator that shares hidden state with its forward operator, so that both are split alike.
    mutates, ignored
        Positions of the inputs that the operator updates in place, and of those of which it uses only the shape.
    annotations
        Names of attributes that do not affect its results.
    sums_gradients
        True if it sums the gradients of one tensor from any number of readers.
    leader
        Position of the first part of the same lowered operator. The parts share one choice and their fetches.
    is_inner
        True for all parts but the last, which has the operator's name. Plans do not name inner parts.
    is_added
        True if the model lacks the operator, though plans name it.
    origin
        The front end's own data, from which its backend builds the workers' copies.
    dimension_names
        For a part with another description: the names of its inputs' and outputs' dimensions in the whole operator, ""
        without a name there. Its axes take the names of the dimensions that they move along.
    find_line
        Returns the line of the user's program as `file:line`, or "". Called when the line is shown.
    scope
        The user's name of the part of the model, such as `encoder/block_0`.
    is_gradient
        True if the operator computes gradients, in a step that is one program.
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
        """The line of the user's program as `file:line`; "" if it is unknown."""
        return "" if self.find_line is None else self.find_line()

    @property
    def full_name(self) -> str:
        """The name, followed by the line of the user's program if it is known."""
        return f"{self.name} at {self.line}" if self.line else self.name

    def __str__(self) -> str:
        return f"{self.name} ({self.op})"


class SourceLines(Mapping[str, str]):
    """Lines of the user's program, by operator. Each is looked up on access."""

    def __init__(self, operators: tuple[Operator, ...] = ()) -> None:
        self._find = {o.name: o.find_line for o in operators if o.find_line is not None and not o.is_inner}

    def __getitem__(self, name: str) -> str:
        return self._find[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._find)

    def __len__(self) -> int:
        return len(self._find)

    def __repr__(self) -> str:
        return repr(dict(self))


@dataclass(frozen=True)
class Carry:
    """Value that a loop passes from step to step.

    Attributes
    ----------
    tensor
        The tensor that the body reads.
    values
        Its first value, and the value that the body computes for the next step, if they are tensors. Both are needed in
        its layout.
    last
        Its value after the loop, in the same layout.
    """

    tensor: int
    values: tuple[int, ...]
    last: int


@dataclass(frozen=True)
class Graph:
    """Training step, or inference step, of a model.

    Attributes
    ----------
    outputs
        Positions of the tensors that the model returns, in the order of its heads.
    gradients
        Position of each differentiated argument -> the position of its gradient. Arguments with the same gradient
        tensor share its position.
    updated
        Positions of the arguments that an optimizer updates after the step. Their gradients are needed in their own
        layout.
    next_values
        Position of each variable that the step itself updates -> the position of its next value, which is needed in the
        variable's layout.
    carries
        Carries of loops. The body of a loop occurs once among the operators; its tensors get new values several
        `times`.
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
        """Pairs of a variable and a tensor that is needed in its layout: a gradient, a next value, or a value of a carry."""
        trained = ((variable, self.gradients[variable]) for variable in sorted(self.updated))
        carried = ((carry.tensor, value) for carry in self.carries for value in carry.values)
        return (*trained, *sorted(self.next_values.items()), *carried)

    @cached_property
    def results(self) -> frozenset[int]:
        """Positions of all returned tensors: outputs, gradients and next values, including those of loops."""
        carried = (value for carry in self.carries for value in carry.values)
        return frozenset((*self.outputs, *self.gradients.values(), *self.next_values.values(), *carried))

    @property
    def is_training(self) -> bool:
        """True if the graph is more than a forward pass."""
        return bool(self.gradients or self.next_values)

    @cached_property
    def tensor_index(self) -> dict[str, int]:
        """Name -> position of every tensor."""
        return {tensor.name: position for position, tensor in enumerate(self.tensors)}

    @cached_property
    def operator_index(self) -> dict[str, int]:
        """Name -> position of every operator."""
        return {operator.name: position for position, operator in enumerate(self.operators)}

    @cached_property
    def named_parts(self) -> tuple[int, ...]:
        """Position, for each operator, of the part with the name of the model's operator; its own position if it is whole."""
        parts = enumerate(self.operators)
        named = {o.leader: position for position, o in parts if o.leader is not None and not o.is_inner}
        return tuple(named.get(n if o.leader is None else o.leader, n) for n, o in enumerate(self.operators))

    @cached_property
    def written_in_place(self) -> frozenset[int]:
        """Positions of the tensors that operators update in place. Each worker must hold what its copies write."""
        return frozenset(o.inputs[slot] for o in self.operators for slot in o.mutates)

    @cached_property
    def tensor_labels(self) -> tuple[int, ...]:
        """Structural label of each tensor, for all native graphs."""
        return tuple(
            make_label(tensor.kind, tensor.shape, tensor.dtype, *([tensor.times] if tensor.times > 1 else []))
            for tensor in self.tensors
        )

    @cached_property
    def operator_labels(self) -> tuple[int, ...]:
        """Structural label of each operator, for all native graphs."""
        return tuple(
            make_label(o.op, sorted(o.attributes.items()), [self.tensors[t].shape for t in (*o.inputs, *o.outputs)])
            for o in self.operators
        )

    @cached_property
    def fingerprint(self) -> str:
        """Digest of everything that a plan depends on: names, operators, attributes, shapes, types, edges."""
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
    """Return a structural label, which is equal for equal operators or tensors of any name."""
    return int.from_bytes(hashlib.blake2b(repr(values).encode(), digest_size=8).digest(), "little")
