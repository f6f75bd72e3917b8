"""Interpreter that computes a description with NumPy, to compare it with the framework's kernel on small inputs.

A value inside lambdas of n index variables is an array of n dimensions, one for each variable. It has extent 1 along
variables that the value does not depend on. The product of the extents of all n variables is at most `MOST_POINTS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any as Anything
from typing import TypeAlias

import numpy as np
import sympy

from tofu.errors import DescriptionError, TofuError
from tofu.tdl.description import Description
from tofu.tdl.expression import (
    AnyIndex,
    AnyOf,
    Call,
    Constant,
    Element,
    ExtentSymbol,
    Index,
    OpaqueElement,
    Position,
    RandomElement,
    Reduction,
    TensorSlice,
    Unread,
    Value,
    extent_symbol,
    variable_symbol,
)
from tofu.tdl.forms import Output
from tofu.tdl.functions import find_numpy_function
from tofu.tdl.tracing import Trace, trace

Array: TypeAlias = "np.ndarray[Anything, np.dtype[Anything]]"
MOST_POINTS = 2**24
"""The largest product of extents that the interpreter computes. It then needs about half a gigabyte."""


class TooManyPointsError(TofuError):
    """The interpreter would need too much memory for a description at these shapes."""


_REDUCERS: dict[str, Anything] = {"Sum": np.sum, "Max": np.max, "Min": np.min, "Prod": np.prod}


def interpret(
    description: Description,
    attributes: Mapping[str, object],
    inputs: Sequence[Array],
    output_shapes: Sequence[Sequence[int]],
) -> list[Array]:
    """Compute the outputs of an operator from its description, in float64 or complex128. Unwritten outputs are NaN.

    Raises DescriptionError for random numbers, an `Opaque` without a Python function, or an `Any` without an index.
    Raises TooManyPointsError for shapes that are too large.
    """
    shapes = [array.shape for array in inputs]
    traced = trace(description, attributes, shapes, [len(shape) for shape in output_shapes], output_shapes)
    interpreter = Interpreter(traced, inputs, output_shapes)
    return [
        interpreter.compute(output, tuple(shape)) for output, shape in zip(traced.outputs, output_shapes, strict=True)
    ]


class Interpreter:
    """Interpreter of one trace.

    The *scope* of a value holds the index variables of all lambdas around it, outermost first.
    """

    def __init__(self, traced: Trace, inputs: Sequence[Array], output_shapes: Sequence[Sequence[int]]) -> None:
        self._trace = traced
        self._inputs = list(map(_as_numbers, inputs))
        self._extents: dict[ExtentSymbol, sympy.Integer] = {}
        for tensor, array in zip(traced.tensors, inputs, strict=True):
            self._extents.update(zip(tensor.extents, map(sympy.Integer, array.shape), strict=True))
        for symbols, shape in zip(traced.output_extents, output_shapes, strict=True):
            self._extents.update(zip(symbols, map(sympy.Integer, shape), strict=True))
        self._ranges = self._find_ranges()

    def compute(self, output: Output, shape: tuple[int, ...]) -> Array:
        """Compute one output, which has this shape."""
        if output.value is None:
            return np.full(shape, np.nan)
        scope = output.variables
        grid = self._find_grid(scope)
        values = np.broadcast_to(self._value(output.value, scope), grid)
        if output.groups is not None:
            return values.reshape(shape).copy()
        result = np.zeros(shape, np.result_type(values, np.float64))
        coordinates = [np.broadcast_to(self._coordinate(c, scope), grid) for c in output.coordinates]
        inside = np.ones(grid, dtype=bool)
        for coordinate, extent in zip(coordinates, shape, strict=True):
            inside &= (coordinate >= 0) & (coordinate < extent)
        np.add.at(result, tuple(coordinate[inside] for coordinate in coordinates), values[inside])
        return result

    def _find_grid(self, scope: tuple[str, ...]) -> tuple[int, ...]:
        grid = tuple(self._ranges[name] for name in scope)
        if (points := prod(grid)) > MOST_POINTS:
            description = self._trace.description
            raise TooManyPointsError(
                f"{description.place}: {description.name} has {points} points at these shapes, the product of the extents of "
                f"{', '.join(scope)}; at most {MOST_POINTS} are executed. Use smaller shapes."
            )
        return grid

    def _find_ranges(self) -> dict[str, int]:
        waiting = dict(self._trace.definitions)
        ranges: dict[str, int] = {}
        while waiting:
            before = len(waiting)
            for name, known in list(waiting.items()):
                extent = known[0].extent.xreplace(self._extents)
                if extent.is_Integer:
                    self._extents[extent_symbol(f"{name}.extent")] = extent
                    ranges[name] = int(extent)
                    del waiting[name]
            if len(waiting) == before:
                name, known = next(iter(waiting.items()))
                raise DescriptionError(
                    f"{known[0].place}: the extent of {name}, {known[0].extent}, is no integer for these shapes"
                )
        return ranges

    def _value(self, value: Value, scope: tuple[str, ...]) -> Array:
        if isinstance(value, Constant):
            return np.full((1,) * len(scope), value.number)
        if isinstance(value, Position):
            return self._index(value.index, scope).astype(np.float64)
        if isinstance(value, Element):
            return self._element(value, scope)
        if isinstance(value, Call):
            with np.errstate(all="ignore"):
                arguments = [self._value(argument, scope) for argument in value.arguments]
                if value.function == "where":
                    arguments[0] = arguments[0] != 0
                return _as_numbers(find_numpy_function(value.function)(*arguments))
        if isinstance(value, Reduction):
            return self._reduction(value, scope)
        if isinstance(value, OpaqueElement):
            return self._opaque(value, scope)
        if isinstance(value, Unread):
            return np.zeros((1,) * len(scope))
        assert isinstance(value, RandomElement)
        raise DescriptionError(
            f"{self._trace.description.place}: {self._trace.description.name} is random and cannot be executed"
        )

    def _index(self, index: Index, scope: tuple[str, ...]) -> Array:
        expression = sympy.expand(index.expression).xreplace(self._extents)
        result = np.zeros((1,) * len(scope), dtype=np.int64)
        for position, name in enumerate(scope):
            coefficient = expression.coeff(variable_symbol(name))
            if coefficient != 0:
                steps = int(coefficient) * np.arange(self._ranges[name])
                result = result + steps.reshape([-1 if d == position else 1 for d in range(len(scope))])
        return result + int(expression.xreplace({variable_symbol(name): sympy.Integer(0) for name in scope}))

    def _coordinate(self, index: AnyIndex, scope: tuple[str, ...]) -> Array:
        if isinstance(index, Index):
            return self._index(index, scope)
        if isinstance(index, AnyOf):
            return self._index(index.first, scope) + np.trunc(self._value(index.position, scope)).astype(np.int64)
        if index.position is None:
            description = self._trace.description
            raise DescriptionError(
                f"{description.place}: {description.name} cannot be executed, because an index is Any; write Any(index) "
                "to name the element"
            )
        return np.trunc(self._value(index.position, scope)).astype(np.int64)

    def _element(self, element: Element, scope: tuple[str, ...]) -> Array:
        array = self._inputs[element.tensor.position]
        coordinates = [self._coordinate(index, scope) for index in element.indices]
        inside = np.ones((1,) * len(scope), dtype=bool)
        for coordinate, extent in zip(coordinates, array.shape, strict=True):
            inside = inside & (coordinate >= 0) & (coordinate < extent)
        if not coordinates:
            return np.broadcast_to(array, (1,) * len(scope))
        clipped = tuple(
            np.clip(coordinate, 0, extent - 1) for coordinate, extent in zip(coordinates, array.shape, strict=True)
        )
        fill = self._trace.description.find_fill(element.tensor.name, self._trace.attributes)
        return np.where(inside, array[clipped], fill)

    def _reduction(self, reduction: Reduction, scope: tuple[str, ...]) -> Array:
        inner = scope + reduction.variables
        self._find_grid(inner)
        body = self._value(reduction.body, inner)
        outer = body.shape[: len(scope)]
        full = np.broadcast_to(body, outer + tuple(self._ranges[name] for name in reduction.variables))
        return np.asarray(_REDUCERS[reduction.reducer](full, axis=tuple(range(len(scope), len(inner)))))

    def _opaque(self, element: OpaqueElement, scope: tuple[str, ...]) -> Array:
        if element.function is None:
            description = self._trace.description
            raise DescriptionError(
                f"{description.place}: {description.name} cannot be executed: the description does not show "
                f"what {element.name} computes; write Opaque(function) with a Python function"
            )
        grid = self._find_grid(scope)
        arguments = [self._argument(argument, scope, grid) for argument in element.arguments]
        coordinates = [np.broadcast_to(self._index(index, scope), grid) for index in element.indices]
        results: dict[bytes, Array] = {}
        computed = []
        for point in np.ndindex(*grid):
            own = [argument[point] for argument in arguments]
            key = b"".join(np.ascontiguousarray(a).tobytes() for a in own)
            if key not in results:
                results[key] = np.asarray(element.function(*own))
            computed.append(results[key][tuple(int(coordinate[point]) for coordinate in coordinates)])
        return _as_numbers(computed).reshape(grid)

    def _argument(self, argument: Value | TensorSlice, scope: tuple[str, ...], grid: tuple[int, ...]) -> Array:
        if not isinstance(argument, TensorSlice):
            return np.broadcast_to(self._value(argument, scope), grid)
        array = self._inputs[argument.tensor.position]
        kept = [d for d, index in enumerate(argument.indices) if index is None]
        chosen = [d for d, index in enumerate(argument.indices) if index is not None]
        moved = array.transpose(chosen + kept)
        coordinates = tuple(
            np.broadcast_to(self._coordinate(index, scope), grid) for index in argument.indices if index is not None
        )
        selected = moved[coordinates] if coordinates else moved
        return np.broadcast_to(selected, grid + tuple(array.shape[d] for d in kept))


def _as_numbers(values: Anything) -> Array:
    array = np.asarray(values)
    return np.asarray(array, np.complex128 if array.dtype.kind == "c" else np.float64)
