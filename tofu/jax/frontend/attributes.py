"""Convert the parameters of a JAX operation to plain numbers, strings and tuples."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tofu.jax.frontend.equations import Equation, Literal
from tofu.jax.frontend.value_types import ValueType

LEFT_OUT = ("sharding", "out_sharding", "accuracy", "precision", "preferred_element_type", "update_consts")


def read_attributes(equation: Equation, types: Sequence[ValueType]) -> dict[str, Any]:
    """Return the parameters of a JAX operation as plain numbers, strings and tuples, such as {"axes": (0,)}.

    Some parameters, such as the precision, are left out. The types of operands and results are added.
    """
    attributes: dict[str, Any] = {}
    for name, value in _list_parameters(equation.params):
        if name not in LEFT_OUT and (plain := _make_plain(value)) is not None:
            attributes[name] = plain
    literals = tuple((n, x.number) for n, x in enumerate(equation.inputs) if isinstance(x, Literal))
    operand_types = (x.type if isinstance(x, Literal) else types[x] for x in equation.inputs)
    attributes["input_types"] = tuple(type_.dtype_name for type_ in operand_types)
    attributes["output_types"] = tuple(types[x].dtype_name for x in equation.outputs)
    return attributes | ({"literals": literals} if literals else {})


def _list_parameters(params: Any) -> Iterator[tuple[str, Any]]:
    for name, value in params.items():
        fields = getattr(value, "_fields", None)
        if name.endswith("dimension_numbers") and not isinstance(value, tuple):
            yield from vars(value).items()
        elif name.endswith("dimension_numbers") and fields:
            yield from zip(fields, value, strict=True)
        else:
            yield name, value


def _make_plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        elements = tuple(_make_plain(element) for element in value)
        return None if None in elements else elements
    name = getattr(value, "name", None)  # primitives and dtypes have names
    return name if isinstance(name, str) else None
