"""Functions that several lowerings and passes use, such as reading attributes and replacing operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.analysis import OperatorAccess, analyse
from tofu.errors import DescriptionError, UnsupportedError
from tofu.graph import Graph, Operator
from tofu.lowering.parts import Attributes

TYPES = ("float16", "float32", "float64")


def check_type(operator: Operator, dtype: str) -> str:
    """Return `dtype`. Raise UnsupportedError if it is not a floating-point type."""
    if dtype not in TYPES:
        raise UnsupportedError(
            f"{operator.op} {operator.name} would compute in {dtype}, and MXNet has kernels of it for {', '.join(TYPES)} "
            "alone. Give the model's inputs such a type (type_dict=, or dtype= of a Variable), or put a Cast before it."
        )
    return dtype


def positive_axis(attributes: Attributes, rank: int, default: int) -> int:
    """Return the attribute `axis` as a number from 0 to `rank` - 1.

    >>> positive_axis({"axis": "-1"}, rank=4, default=0)
    3
    """
    return int(attributes.get("axis", default)) % rank


def select_attributes(attributes: Attributes, *names: str) -> dict[str, str]:
    """Return the attributes in `names` that are set."""
    return {name: value for name, value in attributes.items() if name in names}


def reduce_shape(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return `shape` with extent 1 along `axis`: (4, 5) with axis 1 gives (4, 1)."""
    return (*shape[:axis], 1, *shape[axis + 1 :])


def find_access(graph: Graph, operator: Operator) -> OperatorAccess | None:
    """Return the axes along which an operator can be split, or None if no description fits."""
    shapes = ([graph.tensors[t].shape for t in tensors] for tensors in (operator.inputs, operator.outputs))
    try:
        return analyse(DESCRIPTIONS[operator.op], operator.attributes, *shapes)
    except (KeyError, UnsupportedError, DescriptionError):
        return None


def replace_operators(graph: Graph, expand: Callable[[int, Operator], Sequence[Operator]]) -> tuple[Operator, ...]:
    """Return a graph's operators, each replaced by the operators `expand(number, operator)`."""
    operators: list[Operator] = []
    new_numbers: list[int] = []
    for number, operator in enumerate(graph.operators):
        forward = None if operator.forward is None else new_numbers[operator.forward]
        expanded = expand(number, replace(operator, forward=forward))
        names = [new_operator.name for new_operator in expanded]
        new_numbers.append(len(operators) + names.index(operator.name))
        operators += expanded
    return tuple(operators)
