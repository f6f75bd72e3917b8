"""TensorFlow's operators: which are counted, and how each is described.

`described.toml` has a line for each. What no description of MXNet's operators or JAX's primitives computes is described in
`descriptions`, a folder like those of `tdl_ops`, with a signature at which it can be analysed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tofu.tdl import Description, Registry

Shape = tuple[int, ...]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Signature:
    """The shapes of an operator's tensors, and its attributes, among them what TensorFlow takes as tensors of shapes and places."""

    inputs: Sequence[Shape]
    outputs: Sequence[Shape]
    attributes: Mapping[str, Any] = field(default_factory=dict)


_SIGNATURES: dict[str, Signature] = {}
DESCRIPTIONS = Registry(f"{__name__}.descriptions", decorator="@describe")


def describe(
    *names: str,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    attributes: Mapping[str, Any] | None = None,
    **options: Any,
) -> Callable[[Function], Function]:
    """Register a description of operators, and the signature at which it is analysed. The function stays, for other signatures."""

    def register(function: Function) -> Function:
        DESCRIPTIONS.op(*names, **options)(function)
        _SIGNATURES.update(dict.fromkeys(names, Signature(inputs, outputs, attributes or {})))
        return function

    return register


def look_up(name: str) -> tuple[Description, Signature]:
    """The description of an operator, and the signature at which it is analysed."""
    return DESCRIPTIONS[name], _SIGNATURES[name]  # in this order: the first look-up registers both
