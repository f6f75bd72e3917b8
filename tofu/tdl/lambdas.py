"""The parameters of lambdas in descriptions. Each parameter is an index variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any as Anything

from tofu.errors import DescriptionError
from tofu.tdl.expression import Index, as_index, variable_symbol
from tofu.tdl.place import Place, find_place

_HAS_STAR_PARAMETER = 0x04  # inspect.CO_VARARGS


@dataclass(frozen=True)
class Parameters:
    """The parameters of a lambda. `star` is "s" if the last parameter is `*s`, else None."""

    names: tuple[str, ...]
    star: str | None
    place: Place

    def expand(self, total: int) -> tuple[str, ...]:
        """Return the names of `total` variables. Replace `*s` by s0, s1, ..."""
        missing_count = total - len(self.names)
        if missing_count < 0 or (missing_count and self.star is None):
            raise DescriptionError(
                f"{self.place}: the lambda takes {len(self.names)} index variables ({', '.join(self.names)}) where "
                f"there are {total}"
            )
        return self.names + tuple(f"{self.star}{n}" for n in range(missing_count))


def read_parameters(function: Callable[..., object]) -> Parameters:
    """Return the index variables of a lambda: its parameters without a default value."""
    code = getattr(function, "__code__", None)
    if code is None:
        raise DescriptionError(f"{find_place()}: a lambda over index variables is expected, not {function!r}")
    default_count = len(getattr(function, "__defaults__", None) or ())
    star = None
    if code.co_flags & _HAS_STAR_PARAMETER:
        star = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
    names = code.co_varnames[: code.co_argcount - default_count]
    return Parameters(tuple(names), star, Place(code.co_filename, code.co_firstlineno))


def list_variables(
    parameters: Parameters, of: str, option: str, count: int | None, names: str | None
) -> tuple[str, ...]:
    """Return the index variables of a lambda.

    A lambda with a parameter `*s` needs `count`, the number of variables, or `names`, such as "b y0 y1". `of` and
    `option` are for error messages.
    """
    if names is None:
        if parameters.star is not None and count is None:
            raise DescriptionError(
                f"{find_place()}: {of} over *{parameters.star} needs {option}=, the number of all its index variables, or names="
            )
        return parameters.names if count is None else parameters.expand(count)
    variables = tuple(names.split())
    if variables[: len(parameters.names)] != parameters.names:
        raise DescriptionError(
            f"{find_place()}: names= lists {', '.join(variables)}, the lambda begins with {', '.join(parameters.names)}"
        )
    return variables


def call_with_variables(function: Callable[..., Anything], names: tuple[str, ...]) -> Anything:
    """Call a lambda with one index variable for each name."""
    return function(*(Index(variable_symbol(name)) for name in names))


def read_extents(extents: Mapping[str, object] | None, names: tuple[str, ...]) -> dict[str, Index]:
    """Return the declared length of each index variable.

    For a parameter `*s`, `extents["s"]` has the lengths of s0, s1 and so on. Raises DescriptionError for unknown
    variables.
    """
    declared: dict[str, Index] = {}
    for name, extent in (extents or {}).items():
        if isinstance(extent, (tuple, list)):
            declared |= {f"{name}{n}": as_index(e) for n, e in enumerate(extent)}
        else:
            declared[name] = as_index(extent)
    unknown_names = [name for name in declared if name not in names]
    if unknown_names:
        raise DescriptionError(
            f"{find_place()}: extents are declared for {', '.join(unknown_names)}, which the lambda does not take; it "
            f"takes {', '.join(names)}"
        )
    return declared
