"""What all lowerings know of MXNet: the types that parts have kernels of, and attributes as they are written."""

from __future__ import annotations

from tofu.errors import UnsupportedError
from tofu.graph import Operator
from tofu.lowering.parts import Attributes

TYPES = ("float16", "float32", "float64")


def check_type(operator: Operator, dtype: str) -> str:
    """The type of a tensor between the parts of an operator. Raises UnsupportedError where it is of whole numbers."""
    if dtype not in TYPES:
        raise UnsupportedError(
            f"{operator.op} {operator.name} would compute in {dtype}, and MXNet has kernels of it for {', '.join(TYPES)} "
            "alone. Give the model's inputs such a type (type_dict=, or dtype= of a Variable), or put a Cast before it."
        )
    return dtype


def is_true(attributes: Attributes, name: str, otherwise: bool) -> bool:
    """The value of a boolean attribute, as MXNet writes them."""
    return attributes.get(name, str(otherwise)) in ("True", "true", "1")


def positive_axis(attributes: Attributes, rank: int, otherwise: int) -> int:
    """The attribute `axis`, counted from the front."""
    return int(attributes.get("axis", otherwise)) % rank
