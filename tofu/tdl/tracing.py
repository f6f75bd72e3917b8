"""Tracing: call a description's function once with symbolic tensors, and record the outputs in a `Trace`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any as Anything

from tofu.errors import DescriptionError, UnsupportedError
from tofu.tdl import functions
from tofu.tdl.description import Description
from tofu.tdl.expression import ExtentSymbol, extent_symbol
from tofu.tdl.extents import Definition, define_extents
from tofu.tdl.forms import Output, as_form
from tofu.tdl.place import Place, find_place
from tofu.tdl.printing import format_description
from tofu.tdl.tensor import Tensor

_TRACED_ON_SYMBOLS = ". A description is traced on symbols"


@dataclass(frozen=True, eq=False)
class Trace:
    """The outputs of a description, as formulas.

    The formulas are valid for one *signature*: attributes, numbers of dimensions, and input dimensions of length 1.

    Attributes
    ----------
    output_extents
        The symbols for the lengths of the outputs' dimensions, `output_extents[output][dimension]`.
    definitions
        All expressions for the length of each index variable.
    """

    description: Description
    attributes: Mapping[str, Anything]
    tensors: tuple[Tensor, ...]
    outputs: tuple[Output, ...]
    output_extents: tuple[tuple[ExtentSymbol, ...], ...]
    definitions: Mapping[str, tuple[Definition, ...]]

    def order_variables(self) -> list[str]:
        """Return the index variables in an order in which lengths depend only on earlier variables."""
        name_by_symbol = {extent_symbol(f"{name}.extent"): name for name in self.definitions}
        needed = {
            name: [name_by_symbol[symbol] for symbol in first.extent.free_symbols & name_by_symbol.keys()]
            for name, (first, *_) in self.definitions.items()
        }
        try:
            return list(TopologicalSorter(needed).static_order())
        except CycleError as error:
            raise DescriptionError(
                f"{self.description.place}: the extents of {' and '.join(error.args[1][1:])} depend on each other; declare one "
                "with extents="
            ) from error

    def __str__(self) -> str:
        return format_description(self.description, self.attributes, self.tensors, self.outputs, self.definitions)


def trace(
    description: Description,
    attributes: Mapping[str, object],
    input_shapes: Sequence[Sequence[int]],
    output_ranks: Sequence[int],
    output_shapes: Sequence[Sequence[int]] | None = None,
) -> Trace:
    """Return the formulas of a description for inputs of these shapes.

    The formulas also hold for other shapes with as many dimensions, if the same dimensions have length 1. With
    `concrete=True`, the formulas hold only for these shapes.
    """
    parsed_attributes = description.parse_attributes(attributes)
    keyword_arguments = dict(parsed_attributes)
    if description.takes_output_shapes:
        if output_shapes is None:
            raise DescriptionError(f"{description.place}: {description.name} needs the shapes of its outputs")
        keyword_arguments["output_shapes"] = tuple(tuple(shape) for shape in output_shapes)
    names = description.name_inputs(len(input_shapes))
    tensors = tuple(
        Tensor(name, n, tuple(e == 1 for e in shape), tuple(shape) if description.concrete else None)
        for n, (name, shape) in enumerate(zip(names, input_shapes, strict=True))
    )
    forms = _call_function(description, tensors, keyword_arguments)
    if len(forms) != len(output_ranks):
        raise DescriptionError(
            f"{description.place}: {description.name} is described with {len(forms)} outputs, the node has "
            f"{len(output_ranks)}"
        )
    outputs = tuple(
        _call_with_place(description, form.trace, rank) for form, rank in zip(forms, output_ranks, strict=True)
    )
    is_single = len(outputs) == 1
    output_extents = tuple(
        tuple(extent_symbol(f"output{'' if is_single else o}.shape[{d}]") for d in range(rank))
        for o, rank in enumerate(output_ranks)
    )
    definitions = define_extents(outputs, output_extents)
    return Trace(description, parsed_attributes, tensors, outputs, output_extents, definitions)


def _call_function(
    description: Description, tensors: tuple[Tensor, ...], attributes: Mapping[str, Anything]
) -> tuple[Anything, ...]:
    absent_inputs = [None] * max(0, len(description.tensors) - len(tensors))
    result = _call_with_place(description, description.function, *tensors, *absent_inputs, **attributes)
    results = result if isinstance(result, (tuple, list)) else (result,)
    return tuple(as_form(value, description.place) for value in results)


def _call_with_place(
    description: Description, function: Anything, *arguments: Anything, **keywords: Anything
) -> Anything:
    try:
        return function(*arguments, **keywords)
    except (DescriptionError, UnsupportedError):  # raised for attributes that the description does not cover
        raise
    except Exception as error:
        place = _find_place_of_error(error) or find_place()
        raise DescriptionError(
            f"{place}: the description of {description.name} raised {type(error).__name__}: {error}{_find_advice(error)}"
        ) from error


def _find_advice(error: Exception) -> str:
    if not isinstance(error, TypeError):
        return ""
    if "must be real number" in str(error):
        return f"{_TRACED_ON_SYMBOLS}: write the function of that name from tofu.tdl"
    match = re.search(r"no callable (\w+) method", str(error))
    if match is None:
        return ""
    name = match[1]
    if hasattr(functions, name):
        return f"{_TRACED_ON_SYMBOLS}: write {name} from tofu.tdl"
    return f"{_TRACED_ON_SYMBOLS}, and tofu.tdl has no {name}: make one by elementwise('my_{name}', np.{name})"


def _find_place_of_error(error: Exception) -> Place | None:
    traceback, place = error.__traceback__, None
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if "/tofu/tdl/" not in file.replace("\\", "/") and "/sympy/" not in file:
            place = Place(file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return place
