"""The lowerings by operator name. Each stands in one file of this package, its kernels in one file of `csrc/nnvm/parts`.

A lowering takes the place of one operator of the semantic graph. Its parts are ordinary operators with descriptions of their own, so
the search prices them, and the emission writes them, like any others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tofu.errors import UnsupportedError
from tofu.graph import Operator, Tensor, TensorKind

Attributes = Mapping[str, str]
Inputs = Sequence[Tensor]
ITEM_BYTES = {"float16": 2, "float32": 4, "float64": 8}


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
        """A new tensor between the parts; its position. Raises UnsupportedError where it would be of whole numbers."""
        if dtype not in ITEM_BYTES:
            raise UnsupportedError(
                f"{self.whole.op} {self.whole.name} would compute in {dtype}, and MXNet has kernels of it for {', '.join(ITEM_BYTES)} "
                "alone. Give the model's inputs such a type (type_dict=, or dtype= of a Variable), or put a Cast before it."
            )
        full_name = f"{self.whole.name}/{name}"
        self.tensors.append(Tensor(full_name, shape, dtype, ITEM_BYTES[dtype], TensorKind.INTERMEDIATE, is_inner=True))
        return self.first_tensor + len(self.tensors) - 1

    def inner_operator(
        self, name: str, op: str, attributes: Attributes, inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> None:
        """A part that comes before the last one."""
        self._add(f"{self.whole.name}/{name}", op, attributes, inputs, outputs, (), is_inner=True)

    def last_operator(
        self,
        op: str,
        attributes: Attributes,
        inputs: tuple[int, ...],
        mutates: tuple[int, ...] = (),
        outputs: tuple[int, ...] | None = None,
    ) -> None:
        """The part that has the operator's name and outputs, or those `outputs` alone that its kernel writes: nobody reads the others
        (`unwritten.py`).
        """
        outputs = self.whole.outputs if outputs is None else outputs
        self._add(self.whole.name, op, attributes, inputs, outputs, mutates, is_inner=False)

    def last_is_stock(self, rewritten: Attributes, inputs: tuple[int, ...]) -> None:
        """The last part is the operator's own node, with other attributes and inputs."""
        attributes = {**self.whole.attributes, **rewritten}
        self.last_operator(self.whole.op, attributes, inputs)
        self.operators[-1] = replace(self.operators[-1], node=self.whole.node, rewritten=dict(rewritten))

    def _add(
        self,
        name: str,
        op: str,
        attributes: Attributes,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        mutates: tuple[int, ...],
        is_inner: bool,
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
            node=-1,
            leader=self.position if self.operators else None,
            is_inner=is_inner,
        )
        self.operators.append(part)


def _same(attributes: Attributes) -> Attributes:
    return attributes


def _always(operator: Operator, inputs: Inputs) -> bool:
    return True


def _nothing(attributes: Attributes) -> tuple[int, ...]:
    return ()


@dataclass(frozen=True)
class Lowering:
    """How one stock operator is lowered.

    Attributes
    ----------
    expand
        Writes down the parts.
    writes
        Positions of inputs that the stock kernel changes without saying so, by its attributes.
    asked
        Outputs that have to be asked for, else the stock kernel does not do so.
    in_inference
        The attributes that describe what the operator does in inference, where those differ.
    is_possible
        Whether an operator can be lowered, by its attributes and its inputs.
    """

    expand: Callable[[Parts], None]
    writes: Callable[[Attributes], tuple[int, ...]] = _nothing
    asked: Callable[[Attributes], tuple[int, ...]] = _nothing
    in_inference: Callable[[Attributes], Attributes] = _same
    is_possible: Callable[[Operator, Inputs], bool] = _always


_LOWERINGS: dict[str, Lowering] = {}


def register(op: str, lowering: Lowering) -> None:
    """Register the lowering of the stock operator `op`."""
    _LOWERINGS[op] = lowering


def lowered_operators() -> frozenset[str]:
    """The stock operators that have a lowering, at some of their attributes."""
    return frozenset(_LOWERINGS)


def lookup_lowering(operator: Operator, tensors: Sequence[Tensor]) -> Lowering | None:
    """The lowering of an operator over the graph's `tensors`, or None where its own kernel is all there is."""
    lowering = _LOWERINGS.get(operator.op)
    if lowering is None:
        return None
    inputs = [tensors[position] for position in operator.inputs]
    return lowering if lowering.is_possible(operator, inputs) else None


def is_true(attributes: Attributes, name: str, otherwise: bool) -> bool:
    """The value of a boolean attribute, as MXNet writes them."""
    return attributes.get(name, str(otherwise)) in ("True", "true", "1")


def positive_axis(attributes: Attributes, rank: int, otherwise: int) -> int:
    """The attribute `axis`, counted from the front."""
    return int(attributes.get("axis", otherwise)) % rank
