"""Descriptions of operators: formulas that say how each output element is computed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any as Anything
from typing import TypeAlias

from tofu.errors import DescriptionError
from tofu.tdl.local import Bound
from tofu.tdl.place import Place

REQUIRED = inspect.Parameter.empty
OUTPUT_SHAPES = "output_shapes"
Fill: TypeAlias = float | Callable[[Mapping[str, Anything]], float]
Parse: TypeAlias = Callable[[object, object], Anything]
Format: TypeAlias = Callable[[object], Anything]


def keep_value(value: object, default: object = None) -> Anything:
    """Return `value` unchanged."""
    return value


@dataclass(frozen=True, eq=False)
class Description:
    """A description of an operator: a function that returns a formula for each output.

    The function takes the operator's tensors and attributes. `Registry.op` explains the fields that are not listed
    here.

    Attributes
    ----------
    tensors
        The names of the inputs.
    optional
        The number of inputs at the end of `tensors` that may be left out.
    star
        The name of `*inputs`, for any number of further inputs, or None.
    defaults
        The operator's attributes (such as `axis`) with their default values, or REQUIRED.
    parse
        Function that converts an attribute from the framework's format to a Python value.
    format
        Function that converts a Python value to the framework's format.
    """

    names: tuple[str, ...]
    function: Callable[..., Anything]
    place: Place
    tensors: tuple[str, ...]
    optional: int
    star: str | None
    defaults: Mapping[str, Anything]
    bound: Mapping[str, Bound] = field(default_factory=dict)
    corrects: frozenset[str] = frozenset()
    starts: frozenset[str] = frozenset()
    counts: frozenset[str] = frozenset()
    pads: frozenset[str] = frozenset()
    fill: Mapping[str, Fill] = field(default_factory=dict)
    needs: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    concrete: bool = False
    advice: str = ""
    takes_output_shapes: bool = False
    parse: Parse = keep_value
    format: Format = keep_value
    cache: dict[Anything, Anything] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The operator's name, or the first of several names."""
        return self.names[0]

    def parse_attributes(self, attributes: Mapping[str, object]) -> dict[str, Anything]:
        """Convert an operator's attributes to Python values, and add the default values."""
        parsed: dict[str, Anything] = {}
        for name, default in self.defaults.items():
            if name not in attributes:
                if default is REQUIRED:
                    raise DescriptionError(
                        f"{self.place}: {self.name} needs the attribute `{name}`, which the node does not have"
                    )
                parsed[name] = default
                continue
            try:
                parsed[name] = self.parse(attributes[name], None if default is REQUIRED else default)
            except ValueError as error:
                raise DescriptionError(
                    f"{self.place}: attribute `{name}` of {self.name}: {error}; its default is {default!r}"
                ) from None
        return parsed

    def find_fill_value(self, tensor: str, attributes: Mapping[str, Anything]) -> float:
        """Return the value of elements outside the input `tensor`, such as 0 for padding."""
        fill = self.fill.get(tensor, 0.0)
        return fill(attributes) if callable(fill) else fill

    def name_inputs(self, count: int) -> tuple[str, ...]:
        """Return the names of the first `count` inputs."""
        least_count = len(self.tensors) - self.optional
        if count < least_count or (count > len(self.tensors) and self.star is None):
            input_list = ", ".join((*self.tensors, *([f"*{self.star}"] if self.star else [])))
            raise DescriptionError(
                f"{self.place}: {self.name} is described with the inputs ({input_list}), the node has {count}"
            )
        star_count = count - len(self.tensors)
        return self.tensors[:count] + tuple(f"{self.star}{n}" for n in range(star_count))

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self.tensors)}) at {self.place}"


def describe(function: Callable[..., Anything], names: tuple[str, ...] = (), **options: Anything) -> Description:
    """Return a description without registering it.

    `options` are the options of `Registry.op`, and `parse` and `format` (see `Description`).
    """
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    star_parameter = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    place = Place(function.__code__.co_filename, function.__code__.co_firstlineno)
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        raise DescriptionError(f"{place}: attributes are listed one by one as keyword-only parameters, not by **")
    if any(p.default is not p.empty and p.default is not None for p in positional):
        raise DescriptionError(
            f"{place}: positional parameters are tensors, and the default of an optional one is None"
        )
    attributes = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != OUTPUT_SHAPES}
    for name in options.get("bound", {}):
        if name not in attributes:
            raise DescriptionError(
                f"{place}: `{name}` is bound but is no attribute of the description; list it as keyword-only"
            )
    return Description(
        names or (function.__name__,),
        function,
        place,
        tuple(p.name for p in positional),
        sum(p.default is None for p in positional),
        star_parameter,
        attributes,
        takes_output_shapes=any(p.name == OUTPUT_SHAPES for p in parameters),
        **options,
    )
