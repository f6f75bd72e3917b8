"""Element-wise functions for descriptions, under their NumPy names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any as Anything

import numpy as np

from tofu.tdl.expression import (
    Element,
    Index,
    Operand,
    Position,
    Unread,
    Value,
    as_index,
    as_value,
    call,
    extent_symbol,
)

__all__ = [
    "absolute",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "cbrt",
    "ceil",
    "conjugate",
    "constant",
    "cos",
    "cosh",
    "degrees",
    "divide",
    "elementwise",
    "equal",
    "erf",
    "exp",
    "expm1",
    "extent",
    "floor",
    "fmod",
    "gamma",
    "gammaln",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "merge",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "position",
    "power",
    "radians",
    "real",
    "reciprocal",
    "rint",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "unread",
    "where",
]

_FUNCTIONS_BEYOND_NUMPY: dict[str, Callable[..., Anything]] = {
    "erf": np.vectorize(math.erf, otypes=[float]),
    "gamma": np.vectorize(math.gamma, otypes=[float]),
    "gammaln": np.vectorize(math.lgamma, otypes=[float]),
}


def find_numpy_function(name: str) -> Callable[..., Anything]:
    """Return the NumPy function that computes the element-wise function `name`."""
    function: Callable[..., Anything] = _FUNCTIONS_BEYOND_NUMPY.get(name) or getattr(np, name)
    return function


def elementwise(name: str, function: Callable[..., Anything]) -> Callable[..., Value]:
    """Return a new element-wise function for descriptions. To compute it, the interpreter calls `function` with NumPy arrays."""
    if hasattr(np, name) or _FUNCTIONS_BEYOND_NUMPY.setdefault(name, function) is not function:
        raise ValueError(f"the element-wise function {name} exists already")
    return _make_function(name)


def _make_function(name: str) -> Callable[..., Value]:
    def apply(*operands: Operand) -> Value:
        return call(name, *operands)

    apply.__name__ = name
    apply.__doc__ = f"The element-wise function `{name}` of NumPy."
    return apply


exp, expm1, log, log1p, log2, log10 = map(_make_function, ("exp", "expm1", "log", "log1p", "log2", "log10"))
sqrt, cbrt, square, reciprocal = map(_make_function, ("sqrt", "cbrt", "square", "reciprocal"))
sin, cos, tan, arcsin, arccos, arctan = map(_make_function, ("sin", "cos", "tan", "arcsin", "arccos", "arctan"))
sinh, cosh, tanh, arcsinh, arccosh, arctanh = map(
    _make_function, ("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh")
)
floor, ceil, trunc, rint, sign, absolute = map(_make_function, ("floor", "ceil", "trunc", "rint", "sign", "absolute"))
degrees, radians, erf, gamma, gammaln = map(_make_function, ("degrees", "radians", "erf", "gamma", "gammaln"))
add, subtract, multiply, divide, negative = map(_make_function, ("add", "subtract", "multiply", "divide", "negative"))
maximum, minimum, power, mod, hypot, arctan2 = map(
    _make_function, ("maximum", "minimum", "power", "mod", "hypot", "arctan2")
)
fmod, isnan, isinf, isfinite = map(_make_function, ("fmod", "isnan", "isinf", "isfinite"))
less, less_equal, greater, greater_equal = map(_make_function, ("less", "less_equal", "greater", "greater_equal"))
equal, not_equal = map(_make_function, ("equal", "not_equal"))
logical_and, logical_or, logical_xor, logical_not = map(
    _make_function, ("logical_and", "logical_or", "logical_xor", "logical_not")
)
real, imag, conjugate = map(_make_function, ("real", "imag", "conjugate"))
where = _make_function("where")


def position(index: Index | int) -> Value:
    """Return an index as a number.

    The operator then cannot be split along the index variables, because each worker's kernel counts from zero.
    """
    return Position(as_index(index))


def extent(variable: str) -> Index:
    """Return the length of the range of an index variable.

    With it, a description can declare the length of another variable's range: extents={"ci": data.shape[1] //
    extent("g")}.
    """
    return Index(extent_symbol(f"{variable}.extent"))


def merge(*variables: Index) -> Index:
    """Return the index into a dimension that several index variables share in row-major order: `g * co.extent + co`."""
    merged = as_index(0)
    for variable in variables:
        merged = as_index(merged * variable.extent + variable)
    return merged


def unread(element: Element) -> Value:
    """Mark an element as never read by the kernel, which needs only a tensor of the right shape.

    Tofu then passes each worker an array of arbitrary numbers.
    """
    return Unread(element)


def constant(number: float) -> Value:
    """Convert a number to a value, for an output that is filled with this number."""
    return as_value(number)
