"""Operator descriptions by the framework's operator names. `op` is how they get in."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any as Anything
from typing import TypeAlias, overload

from tofu.errors import DescriptionError
from tofu.tdl.attributes import parse_attribute
from tofu.tdl.local import Bound
from tofu.tdl.place import Place

REQUIRED = inspect.Parameter.empty
OUTPUT_SHAPES = "output_shapes"
Fill: TypeAlias = float | Callable[[Mapping[str, Anything]], float]
_REGISTERED: dict[str, Description] = {}


@dataclass(frozen=True, eq=False)
class Description:
    """What an operator computes: a function from its tensors and attributes to its outputs' lambdas.

    `tensors` are the names of its inputs, the last `optional` of which may be absent; `star` takes any further ones.
    `defaults` are its attributes, REQUIRED for those without one. The rest is explained at `op`.
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
    pads: frozenset[str] = frozenset()
    fill: Mapping[str, Fill] = field(default_factory=dict)
    needs: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    concrete: bool = False
    takes_output_shapes: bool = False
    cache: dict[Anything, Anything] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The first of the operator's names."""
        return self.names[0]

    def parse_attributes(self, attributes: Mapping[str, object]) -> dict[str, Anything]:
        """The attributes that the description lists, as values; the others are ignored. Missing ones take their default."""
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
                parsed[name] = parse_attribute(attributes[name], None if default is REQUIRED else default)
            except ValueError as error:
                raise DescriptionError(
                    f"{self.place}: attribute `{name}` of {self.name}: {error}; its default is {default!r}"
                ) from None
        return parsed

    def find_fill(self, tensor: str, attributes: Mapping[str, Anything]) -> float:
        """The number in cells outside an input, which may depend on the parsed attributes."""
        fill = self.fill.get(tensor, 0.0)
        return fill(attributes) if callable(fill) else fill

    def name_inputs(self, count: int) -> tuple[str, ...]:
        """The names of a node's `count` inputs."""
        least = len(self.tensors) - self.optional
        if count < least or (count > len(self.tensors) and self.star is None):
            takes = ", ".join((*self.tensors, *([f"*{self.star}"] if self.star else [])))
            raise DescriptionError(
                f"{self.place}: {self.name} is described with the inputs ({takes}), the node has {count}"
            )
        more = count - len(self.tensors)
        return self.tensors[:count] + tuple(f"{self.star}{n}" for n in range(more))

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self.tensors)}) at {self.place}"


def lookup(name: str) -> Description | None:
    """The description of the framework's operator `name`, or None."""
    return _REGISTERED.get(name)


def registered() -> Mapping[str, Description]:
    """All descriptions by operator name; read-only and live."""
    return MappingProxyType(_REGISTERED)


@overload
def op(name: Callable[..., Anything], /) -> Description: ...


@overload
def op(
    name: str = ...,
    /,
    *names: str,
    bound: Mapping[str, Bound] | None = ...,
    corrects: Iterable[str] = ...,
    starts: Iterable[str] = ...,
    pads: Iterable[str] = ...,
    fill: Mapping[str, Fill] | None = ...,
    needs: Mapping[int, tuple[int, ...]] | None = ...,
    concrete: bool = ...,
    override: bool = ...,
) -> Callable[[Callable[..., Anything]], Description]: ...


def op(
    name: str | Callable[..., Anything] = "",
    /,
    *names: str,
    bound: Mapping[str, Bound] | None = None,
    corrects: Iterable[str] = (),
    starts: Iterable[str] = (),
    pads: Iterable[str] = (),
    fill: Mapping[str, Fill] | None = None,
    needs: Mapping[int, tuple[int, ...]] | None = None,
    concrete: bool = False,
    override: bool = False,
) -> Description | Callable[[Callable[..., Anything]], Description]:
    """Register a description, under its function's name or the framework's operator names.

    bound: attributes of a worker's copy, each the name of the index variable whose extent it is, or a function of
    `Local`.
    corrects: index variables for which bound attributes make up for the copy's smaller extents (a mean's divisor, say).
    starts: index variables whose positions are used as numbers, and for which bound attributes tell a copy where its part starts.
    pads: index variables for which bound attributes make up for offsets and borders: the copy gets the cells outside
        the tensor from Tofu and reads its local tensor from cell 0 on.
    fill: the number in cells outside a tensor, where it is not 0; or a function of the attributes' values.
    needs: output -> the outputs without which the kernel computes it wrongly or not at all: a copy that is asked for
        the one is asked for the others, whether or not somebody reads them.
    concrete: t.shape are integers and belong to the signature, for descriptions that branch on them (Reshape). A
        keyword-only parameter `output_shapes` is then given the outputs' shapes, for backward operators whose inputs
        do not tell them.
    override: replace an earlier description of the same name.

    >>> @op("my_operator")
    ... def my_operator(data):
    ...     return lambda i, j: 2 * data[j, i]
    """
    if callable(name):
        return op()(name)
    wanted = (name, *names) if name else ()

    def register(function: Callable[..., Anything]) -> Description:
        description = describe(
            function,
            wanted,
            bound=dict(bound or {}),
            corrects=frozenset(corrects),
            starts=frozenset(starts),
            pads=frozenset(pads),
            fill=dict(fill or {}),
            needs=dict(needs or {}),
            concrete=concrete,
        )
        for key in description.names:
            before = _REGISTERED.get(key)
            if before is not None and not override:
                raise DescriptionError(
                    f"{description.place}: {key} is described already at {before.place}; op(..., override=True) "
                    "replaces it"
                )
        _REGISTERED.update(dict.fromkeys(description.names, description))
        return description

    return register


def describe(function: Callable[..., Anything], names: tuple[str, ...] = (), **options: Anything) -> Description:
    """A description that is not registered, with the options of `op`."""
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    star = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
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
        star,
        attributes,
        takes_output_shapes=any(p.name == OUTPUT_SHAPES for p in parameters),
        **options,
    )
