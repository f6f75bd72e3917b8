"""Functions that MXNet's lowerings share: checks of types, and reading of attributes."""

from __future__ import annotations

from tofu.errors import UnsupportedError
from tofu.graph import Operator
from tofu.lowering.parts import Attributes

TYPES = ("float16", "float32", "float64")


def check_type(operator: Operator, dtype: str) -> str:
    """Return `dtype`, the type of a tensor between the parts of an operator.

    Raise UnsupportedError for an integer type.
    """
    if dtype not in TYPES:
        raise UnsupportedError(
            f"{operator.op} {operator.name} would compute in {dtype}, and MXNet has kernels of it for {', '.join(TYPES)} "
            "alone. Give the model's inputs such a type (type_dict=, or dtype= of a Variable), or put a Cast before it."
        )
    return dtype


def is_true(attributes: Attributes, name: str, default: bool) -> bool:
    """Return the value of a boolean attribute, which MXNet writes as True, true or 1."""
    return attributes.get(name, str(default)) in ("True", "true", "1")


def positive_axis(attributes: Attributes, rank: int, default: int) -> int:
    """Return the attribute `axis`, where -1 means the last dimension, as a number from 0.

    >>> positive_axis({"axis": "-1"}, rank=4, default=0)
    3
    """
    return int(attributes.get("axis", default)) % rank


def select_attributes(attributes: Attributes, *names: str) -> dict[str, str]:
    """Return the attributes in `names` that are set."""
    return {name: value for name, value in attributes.items() if name in names}


def reduce_shape(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return the shape of a sum along `axis` that keeps this dimension, with extent 1."""
    return (*shape[:axis], 1, *shape[axis + 1 :])
