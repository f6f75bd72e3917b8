"""An interpreter that computes a description with NumPy. Tests compare the result with the framework's kernel.

A formula with n index variables is computed for all their values at once, as an array of n dimensions. An array may
have at most `MOST_POINTS` elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any as Anything
from typing import TypeAlias

import numpy as np
import sympy

from tofu.errors import DescriptionError, TofuError
from tofu.tdl import expression as tdl
from tofu.tdl.description import Description
from tofu.tdl.forms import Output
from tofu.tdl.functions import find_numpy_function
from tofu.tdl.tracing import Trace, trace

Array: TypeAlias = "np.ndarray[Anything, np.dtype[Anything]]"
MOST_POINTS = 2**24
"""The largest number of elements in an array of the interpreter, which then needs about half a gigabyte."""


class TooManyPointsError(TofuError):
    """Error for shapes at which the interpreter would need too much memory."""


_REDUCERS: dict[str, Anything] = {"Sum": np.sum, "Max": np.max, "Min": np.min, "Prod": np.prod}


def interpret(
    description: Description,
    attributes: Mapping[str, object],
    inputs: Sequence[Array],
    output_shapes: Sequence[Sequence[int]],
) -> list[Array]:
    """Compute the outputs of an operator from its description, in double precision. Unwritten outputs are NaN.

    Raises TooManyPointsError if the shapes are too large. Raises DescriptionError if the description does not determine
    the outputs, for example if it draws random numbers.
    """
    shapes = [array.shape for array in inputs]
    traced = trace(description, attributes, shapes, [len(shape) for shape in output_shapes], output_shapes)
    interpreter = Interpreter(traced, inputs, output_shapes)
    return [
        interpreter.compute(output, tuple(shape)) for output, shape in zip(traced.outputs, output_shapes, strict=True)
    ]


class Interpreter:
    """Computes the outputs of an operator from the formulas in its description. All shapes are fixed."""

    # The scope of a value lists the index variables around it, the outermost first.

    def __init__(self, traced: Trace, inputs: Sequence[Array], output_shapes: Sequence[Sequence[int]]) -> None:
        self._trace = traced
        self._inputs = list(map(_as_numbers, inputs))
        self._extent_by_symbol: dict[tdl.ExtentSymbol, sympy.Integer] = {}
        for tensor, array in zip(traced.tensors, inputs, strict=True):
            self._extent_by_symbol.update(zip(tensor.extents, map(sympy.Integer, array.shape), strict=True))
        for symbols, shape in zip(traced.output_extents, output_shapes, strict=True):
            self._extent_by_symbol.update(zip(symbols, map(sympy.Integer, shape), strict=True))
        self._extent_by_variable = self._evaluate_extents()

    def compute(self, output: Output, shape: tuple[int, ...]) -> Array:
        """Compute `output` as an array of the given shape."""
        if output.value is None:
            return np.full(shape, np.nan)
        scope = output.variables
        scope_shape = self._find_shape(scope)
        values = np.broadcast_to(self._compute_value(output.value, scope), scope_shape)
        if output.groups is not None:
            return values.reshape(shape).copy()
        result = np.zeros(shape, np.result_type(values, np.float64))
        coordinates = [np.broadcast_to(self._compute_coordinate(c, scope), scope_shape) for c in output.coordinates]
        is_inside = np.broadcast_to(_are_inside(coordinates, shape), scope_shape)
        np.add.at(result, tuple(coordinate[is_inside] for coordinate in coordinates), values[is_inside])
        return result

    def _find_shape(self, scope: tuple[str, ...]) -> tuple[int, ...]:
        shape = tuple(self._extent_by_variable[name] for name in scope)
        if (point_count := prod(shape)) > MOST_POINTS:
            description = self._trace.description
            raise TooManyPointsError(
                f"{description.place}: {description.name} has {point_count} points at these shapes, the product of the extents of "
                f"{', '.join(scope)}; at most {MOST_POINTS} are executed. Use smaller shapes."
            )
        return shape

    def _evaluate_extents(self) -> dict[str, int]:
        extent_by_variable: dict[str, int] = {}
        for name in self._trace.order_variables():
            definition = self._trace.definitions[name][0]
            extent = definition.extent.xreplace(self._extent_by_symbol)
            if not extent.is_Integer:
                raise DescriptionError(
                    f"{definition.place}: the extent of {name}, {definition.extent}, is no integer for these shapes"
                )
            self._extent_by_symbol[tdl.extent_symbol(f"{name}.extent")] = extent
            extent_by_variable[name] = int(extent)
        return extent_by_variable

    def _compute_value(self, value: tdl.Value, scope: tuple[str, ...]) -> Array:
        if isinstance(value, tdl.Constant):
            return np.full((1,) * len(scope), value.number)
        if isinstance(value, tdl.Position):
            return self._compute_index(value.index, scope).astype(np.float64)
        if isinstance(value, tdl.Element):
            return self._read_element(value, scope)
        if isinstance(value, tdl.Call):
            with np.errstate(all="ignore"):
                arguments = [self._compute_value(argument, scope) for argument in value.arguments]
                if value.function == "where":
                    arguments[0] = arguments[0] != 0
                return _as_numbers(find_numpy_function(value.function)(*arguments))
        if isinstance(value, tdl.Reduction):
            return self._reduce(value, scope)
        if isinstance(value, tdl.OpaqueElement):
            return self._call_opaque(value, scope)
        if isinstance(value, tdl.Unread):
            return np.zeros((1,) * len(scope))
        assert isinstance(value, tdl.RandomElement)
        raise self._make_error("is random and cannot be executed")

    def _compute_index(self, index: tdl.Index, scope: tuple[str, ...]) -> Array:
        expression = sympy.expand(index.expression).xreplace(self._extent_by_symbol)
        result = np.zeros((1,) * len(scope), dtype=np.int64)
        for position, name in enumerate(scope):
            coefficient = expression.coeff(tdl.variable_symbol(name))
            if coefficient != 0:
                steps = int(coefficient) * np.arange(self._extent_by_variable[name])
                result = result + steps.reshape([-1 if d == position else 1 for d in range(len(scope))])
        return result + int(expression.xreplace({tdl.variable_symbol(name): sympy.Integer(0) for name in scope}))

    def _compute_coordinate(self, index: tdl.AnyIndex, scope: tuple[str, ...]) -> Array:
        if isinstance(index, tdl.Index):
            return self._compute_index(index, scope)
        if isinstance(index, tdl.AnyOf):
            return self._compute_index(index.first, scope) + np.trunc(
                self._compute_value(index.position, scope)
            ).astype(np.int64)
        if index.position is None:
            raise self._make_error("cannot be executed, because an index is Any; write Any(index) to name the element")
        return np.trunc(self._compute_value(index.position, scope)).astype(np.int64)

    def _read_element(self, element: tdl.Element, scope: tuple[str, ...]) -> Array:
        array = self._inputs[element.tensor.position]
        coordinates = [self._compute_coordinate(index, scope) for index in element.indices]
        if not coordinates:
            return np.broadcast_to(array, (1,) * len(scope))
        clipped = tuple(np.clip(c, 0, extent - 1) for c, extent in zip(coordinates, array.shape, strict=True))
        fill = self._trace.description.find_fill_value(element.tensor.name, self._trace.attributes)
        return np.where(_are_inside(coordinates, array.shape), array[clipped], fill)

    def _reduce(self, reduction: tdl.Reduction, scope: tuple[str, ...]) -> Array:
        inner_scope = scope + reduction.variables
        self._find_shape(inner_scope)
        body = self._compute_value(reduction.body, inner_scope)
        outer = body.shape[: len(scope)]
        expanded_body = np.broadcast_to(
            body, outer + tuple(self._extent_by_variable[name] for name in reduction.variables)
        )
        return np.asarray(_REDUCERS[reduction.reducer](expanded_body, axis=tuple(range(len(scope), len(inner_scope)))))

    def _call_opaque(self, element: tdl.OpaqueElement, scope: tuple[str, ...]) -> Array:
        if element.function is None:
            raise self._make_error(
                f"cannot be executed: the description does not show what {element.name} computes; write "
                "Opaque(function) with a Python function"
            )
        scope_shape = self._find_shape(scope)
        arguments = [self._compute_argument(argument, scope, scope_shape) for argument in element.arguments]
        coordinates = [np.broadcast_to(self._compute_index(index, scope), scope_shape) for index in element.indices]
        result_by_arguments: dict[bytes, Array] = {}
        elements = []
        for point in np.ndindex(*scope_shape):
            point_arguments = [argument[point] for argument in arguments]
            key = b"".join(np.ascontiguousarray(a).tobytes() for a in point_arguments)
            if key not in result_by_arguments:
                result_by_arguments[key] = np.asarray(element.function(*point_arguments))
            elements.append(result_by_arguments[key][tuple(int(coordinate[point]) for coordinate in coordinates)])
        return _as_numbers(elements).reshape(scope_shape)

    def _compute_argument(
        self, argument: tdl.Value | tdl.TensorSlice, scope: tuple[str, ...], scope_shape: tuple[int, ...]
    ) -> Array:
        if not isinstance(argument, tdl.TensorSlice):
            return np.broadcast_to(self._compute_value(argument, scope), scope_shape)
        array = self._inputs[argument.tensor.position]
        sliced_dimensions = [d for d, index in enumerate(argument.indices) if index is None]
        indexed_dimensions = [d for d, index in enumerate(argument.indices) if index is not None]
        transposed = array.transpose(indexed_dimensions + sliced_dimensions)
        coordinates = tuple(
            np.broadcast_to(self._compute_coordinate(index, scope), scope_shape)
            for index in argument.indices
            if index is not None
        )
        selected = transposed[coordinates] if coordinates else transposed
        return np.broadcast_to(selected, scope_shape + tuple(array.shape[d] for d in sliced_dimensions))

    def _make_error(self, reason: str) -> DescriptionError:
        description = self._trace.description
        return DescriptionError(f"{description.place}: {description.name} {reason}")


def _are_inside(coordinates: Sequence[Array], shape: Sequence[int]) -> Array:
    is_inside: Array = np.asarray(True)
    for coordinate, extent in zip(coordinates, shape, strict=True):
        is_inside = is_inside & (coordinate >= 0) & (coordinate < extent)
    return is_inside


def _as_numbers(values: Anything) -> Array:
    array = np.asarray(values)
    return np.asarray(array, np.complex128 if array.dtype.kind == "c" else np.float64)
