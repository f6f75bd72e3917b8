"""Element-wise functions for descriptions, under their NumPy names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any as Anything

import numpy as np

from tofu.tdl import expression as tdl

_FUNCTIONS_BEYOND_NUMPY: dict[str, Callable[..., Anything]] = {
    "erf": np.vectorize(math.erf, otypes=[float]),
    "gamma": np.vectorize(math.gamma, otypes=[float]),
    "gammaln": np.vectorize(math.lgamma, otypes=[float]),
}


def find_numpy_function(name: str) -> Callable[..., Anything]:
    """Return the NumPy function that computes the element-wise function `name`."""
    function: Callable[..., Anything] = _FUNCTIONS_BEYOND_NUMPY.get(name) or getattr(np, name)
    return function


def elementwise(name: str, function: Callable[..., Anything]) -> Callable[..., tdl.Value]:
    """Return the function `name` for use in descriptions. `function` computes it for NumPy arrays."""
    if hasattr(np, name) or _FUNCTIONS_BEYOND_NUMPY.setdefault(name, function) is not function:
        raise ValueError(f"the element-wise function {name} exists already")
    return _make_function(name)


def _make_function(name: str) -> Callable[..., tdl.Value]:
    def apply(*operands: tdl.Operand) -> tdl.Value:
        return tdl.call(name, *operands)

    apply.__name__ = name
    apply.__doc__ = f"The element-wise function `{name}` of NumPy."
    return apply


def _make_functions(*names: str) -> Iterator[Callable[..., tdl.Value]]:
    return map(_make_function, names)


exp, expm1, log, log1p, log2, log10 = _make_functions("exp", "expm1", "log", "log1p", "log2", "log10")
__all__ = ["exp", "expm1", "log", "log1p", "log2", "log10"]
sqrt, cbrt, square, reciprocal = _make_functions("sqrt", "cbrt", "square", "reciprocal")
__all__ += ["cbrt", "reciprocal", "sqrt", "square"]
sin, cos, tan, arcsin, arccos, arctan, arctan2 = _make_functions(
    "sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2"
)
__all__ += ["arccos", "arcsin", "arctan", "arctan2", "cos", "sin", "tan"]
sinh, cosh, tanh, arcsinh, arccosh, arctanh = _make_functions("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh")
__all__ += ["arccosh", "arcsinh", "arctanh", "cosh", "sinh", "tanh"]
floor, ceil, trunc, rint, sign, absolute = _make_functions("floor", "ceil", "trunc", "rint", "sign", "absolute")
__all__ += ["absolute", "ceil", "floor", "rint", "sign", "trunc"]
degrees, radians, erf, gamma, gammaln = _make_functions("degrees", "radians", "erf", "gamma", "gammaln")
__all__ += ["degrees", "erf", "gamma", "gammaln", "radians"]
add, subtract, multiply, divide, negative = _make_functions("add", "subtract", "multiply", "divide", "negative")
__all__ += ["add", "divide", "multiply", "negative", "subtract"]
maximum, minimum, power, mod, fmod, hypot = _make_functions("maximum", "minimum", "power", "mod", "fmod", "hypot")
__all__ += ["fmod", "hypot", "maximum", "minimum", "mod", "power"]
less, less_equal, greater, greater_equal = _make_functions("less", "less_equal", "greater", "greater_equal")
__all__ += ["greater", "greater_equal", "less", "less_equal"]
equal, not_equal, isnan, isinf, isfinite, where = _make_functions(
    "equal", "not_equal", "isnan", "isinf", "isfinite", "where"
)
__all__ += ["equal", "isfinite", "isinf", "isnan", "not_equal", "where"]
logical_and, logical_or, logical_xor = _make_functions("logical_and", "logical_or", "logical_xor")
logical_not, real, imag, conjugate = _make_functions("logical_not", "real", "imag", "conjugate")
__all__ += ["conjugate", "imag", "logical_and", "logical_not", "logical_or", "logical_xor", "real"]
__all__ += ["constant", "elementwise", "extent", "merge", "position", "unread"]


def position(index: tdl.Index | int) -> tdl.Value:
    """Use an index as a number, as in `position(i) * data[i]`.

    The operator can then not be split along i, because each worker would count i from zero.
    """
    return tdl.Position(tdl.as_index(index))


def extent(variable: str) -> tdl.Index:
    """Return the number of values of an index variable.

    With it, descriptions declare other lengths: extents={"ci": data.shape[1] // extent("g")}.
    """
    return tdl.Index(tdl.extent_symbol(f"{variable}.extent"))


def merge(*variables: tdl.Index) -> tdl.Index:
    """Return the index of several variables that share a dimension: `g * co.extent + co` for `merge(g, co)`."""
    merged = tdl.as_index(0)
    for variable in variables:
        merged = tdl.as_index(merged * variable.extent + variable)
    return merged


def unread(element: tdl.Element) -> tdl.Value:
    """Mark an element that the kernel does not read.

    The kernel then uses only the tensor's shape.
    """
    return tdl.Unread(element)


def constant(number: float) -> tdl.Value:
    """Describe an output that is filled with a number."""
    return tdl.as_value(number)
