"""The semantic graph: operators, tensors and attributes of one training step, frozen.

It stands between the framework, whose front end builds it (`tofu.mxnet.frontend`), and everything that reasons about it (strategies,
search, plan), so that a second framework can come in beside the first. Operators stand in an executable order; tensors are referred to
by position. A tensor has at most one producer; a variable (argument, auxiliary state, head gradient) has none, and neither has what nobody
reads and no part of an operator writes (`tofu.lowering`).
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
    """When an operator runs within a training step. A fetched region is shared within one phase, never across two."""

    FORWARD = 0
    BACKWARD = 1
    UPDATE = 2


class TensorKind(enum.Enum):
    """What a tensor is to the user."""

    INPUT = "input"  # data and labels: its shape is given, it is fed at each step
    PARAMETER = "parameter"  # an argument that is learned or fixed
    AUXILIARY = "auxiliary"  # a state that operators change in place (moving statistics)
    HEAD_GRADIENT = "head gradient"  # the gradient of an output, fed between forward and backward
    INTERMEDIATE = "intermediate"  # the output of an operator
    CARRY = "carry"  # what a loop hands from step to step, or what it is after the last one


@dataclass(frozen=True)
class Tensor:
    """A tensor of the graph. `shape` is of the whole tensor, in elements; `dtype` is NumPy's name.

    An `is_inner` tensor passes between the parts that take an operator's place (`tofu.lowering`): the model does not have it, and
    no plan names it. `times`: how often it gets new values in a step of training; what the body of a loop computes gets them in each
    step of the loop, and is moved as often. `addends`: of how many values, one after another, each of these is the sum, which workers
    add up before anything moves.
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
        """Bytes that move in a step of training where an element does each time that it gets a new value."""
        return self.item_bytes * self.times

    @property
    def is_given(self) -> bool:
        """Whether it is there before the step begins."""
        return self.kind not in (TensorKind.INTERMEDIATE, TensorKind.CARRY)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Operator:
    """An operator of the graph.

    `forward` is the position (in `Graph.operators`) of the forward operator that a backward operator belongs to, where the framework
    says so. A `stateful` backward operator shares hidden state with its forward operator and must therefore be split in the same way,
    on the same workers. `mutates` are the positions of the inputs that the operator changes in place, `ignored` those of the inputs
    that it takes for their shapes alone. `annotations` are the names of attributes that change nothing of what it computes. One that
    `sums_gradients` adds up what several readers of a tensor say of its gradient, in any number.

    Parts that take the place of one operator of the model share its choice and their fetches: `leader` is the position of the first
    of them. The last one has the operator's name; the others are `is_inner`, and no plan names them. An `is_added` operator has a name in
    plans, and the model does not have it. `origin` is the front end's own: whatever its backend needs to make the workers' copies.
    `find_line` returns the line of the user's program that the operator is of, as `file:line`, or "". It is called when the line is shown.
    `scope` is the part of the model that the operator is in, as its user calls it: `encoder/block_0`. One that `is_gradient` computes
    gradients, in a step that is one program.

    A part that is any other operator besides says in `dimension_names`, for its inputs and then its outputs, what each dimension is called
    in the whole operator, "" where it has no name there. Its axes are called like the dimensions that they move along.
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
        """The line of the user's program, as `file:line`; "" if it is not known."""
        return "" if self.find_line is None else self.find_line()

    @property
    def full_name(self) -> str:
        """The name, followed by the line of the user's program if it is known."""
        return f"{self.name} at {self.line}" if self.line else self.name

    def __str__(self) -> str:
        return f"{self.name} ({self.op})"


class Lines(Mapping[str, str]):
    """The lines of the user's program by the operators that are of them. Each is looked up when it is asked for."""

    def __init__(self, operators: tuple[Operator, ...] = ()) -> None:
        self._find = {one.name: one.find_line for one in operators if one.find_line is not None and not one.is_inner}

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
    """What a loop hands from one of its steps to the next.

    `tensor` is what its body reads; `values` are the tensors, as far as they are some, that it becomes: the first value, and the one that
    the body computes for the next step. Both are needed in its layout. `last`, which lies alike, is what it is
    after the loop.
    """

    tensor: int
    values: tuple[int, ...]
    last: int


@dataclass(frozen=True)
class Graph:
    """One training step, or one inference, of a model.

    Attributes
    ----------
    outputs
        Positions of the tensors that the model returns, in the order of its heads.
    gradients
        For each argument that is differentiated, its tensor's position -> the position of its gradient. An argument whose
        gradient is identically the tensor of another one shares that position.
    updated
        Positions of the arguments that an optimizer updates after the step: their gradients are needed in their own layout.
    next_values
        For each variable that the step itself gives a new value (a parameter, a state of its optimizer), its tensor's position -> the
        position of that value, which is needed in the variable's own layout: the next step begins with it.
    carries
        What loops hand from step to step. The body of a loop stands once among the operators; its tensors get new values several `times`.
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
        """The updates: (variable, what is needed in its layout), a gradient or the next value; of a carry, each of its values."""
        trained = ((variable, self.gradients[variable]) for variable in sorted(self.updated))
        carried = ((carry.tensor, value) for carry in self.carries for value in carry.values)
        return (*trained, *sorted(self.next_values.items()), *carried)

    @cached_property
    def results(self) -> frozenset[int]:
        """Positions of all tensors that are handed out: outputs, gradients and next values, also those of loops."""
        carried = (value for carry in self.carries for value in carry.values)
        return frozenset((*self.outputs, *self.gradients.values(), *self.next_values.values(), *carried))

    @property
    def is_training(self) -> bool:
        """Whether it is more than a forward pass."""
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
        """By operator: the position of the part that has the name of the model's operator; its own where that is whole."""
        parts = enumerate(self.operators)
        named = {o.leader: position for position, o in parts if o.leader is not None and not o.is_inner}
        return tuple(named.get(n if o.leader is None else o.leader, n) for n, o in enumerate(self.operators))

    @cached_property
    def written_in_place(self) -> frozenset[int]:
        """Positions of the tensors that operators change: every worker must hold what its copies write."""
        return frozenset(o.inputs[slot] for o in self.operators for slot in o.mutates)

    @cached_property
    def tensor_labels(self) -> tuple[int, ...]:
        """The structural label of each tensor, as every native graph has it."""
        return tuple(
            make_label(tensor.kind, tensor.shape, tensor.dtype, *([tensor.times] if tensor.times > 1 else []))
            for tensor in self.tensors
        )

    @cached_property
    def operator_labels(self) -> tuple[int, ...]:
        """The structural label of each operator, as every native graph has it."""
        return tuple(
            make_label(o.op, sorted(o.attributes.items()), [self.tensors[t].shape for t in (*o.inputs, *o.outputs)])
            for o in self.operators
        )

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that a plan depends on: names, operators, attributes, shapes, types, edges."""
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
    """A structural label: equal for equal operators or tensors, whatever their names."""
    return int.from_bytes(hashlib.blake2b(repr(values).encode(), digest_size=8).digest(), "little")
