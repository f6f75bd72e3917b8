"""Describe JAX operations on bits of integers and on booleans, and type conversions.

The interpreter of descriptions computes in double precision, which is exact for integers of up to 32 bits. Descriptions
with 64-bit integers are not executed.
"""

import re
from importlib import import_module

import numpy as np

from tdl_ops.jax import op
from tdl_ops.jax.operands import find_cells, numbered
from tofu.errors import DescriptionError, UnsupportedError
from tofu.tdl import Opaque, elementwise, logical_and, logical_not, logical_or, logical_xor, output, real, trunc


def _read_integer_type(name):
    found = re.fullmatch(r"(u?)int(\d+)", name)
    if found is None:
        raise UnsupportedError(f"bits of {name} are not described, only bits of integers")
    return not found[1], int(found[2])


def _refuse(*numbers):
    raise DescriptionError("integers of 64 bits are not exact in the interpreter")


def _wrap(number, name):
    signed, bits = _read_integer_type(name)
    low = number.astype(np.int64) & (2**bits - 1)
    return np.where(low >= 2 ** (bits - 1), low - 2**bits, low) if signed else low


def _unsigned(x, name):
    return x.astype(np.int64) & (2 ** _read_integer_type(name)[1] - 1)


BITS = {
    "and": lambda name, x, y: _wrap(x.astype(np.int64) & y.astype(np.int64), name),
    "or": lambda name, x, y: _wrap(x.astype(np.int64) | y.astype(np.int64), name),
    "xor": lambda name, x, y: _wrap(x.astype(np.int64) ^ y.astype(np.int64), name),
    "not": lambda name, x: _wrap(~x.astype(np.int64), name),
    "shift_left": lambda name, x, y: _wrap(
        np.where(y < 32, _unsigned(x, name) << np.minimum(y, 32).astype(np.int64), 0), name
    ),
    "shift_right_logical": lambda name, x, y: _wrap(_unsigned(x, name) >> np.minimum(y, 63).astype(np.int64), name),
    "shift_right_arithmetic": lambda name, x, y: x.astype(np.int64) >> np.minimum(y, 63).astype(np.int64),
    "population_count": lambda name, x: sum((_unsigned(x, name) >> b) & 1 for b in range(32)),
    "clz": lambda name, x: _read_integer_type(name)[1] - np.ceil(np.log2(_unsigned(x, name) + 1.0)),
}
LOGICAL = {"and": logical_and, "or": logical_or, "xor": logical_xor, "not": logical_not}
_known = {}


def typed(primitive, name, function):
    if (primitive, name) not in _known:
        _known[primitive, name] = elementwise(f"{primitive}_of_{name}", function)
    return _known[primitive, name]


def _describe(primitive, function):
    def description(*x, output_types, literals=()):
        (name,) = output_types
        cells = find_cells(x, literals)
        if name == "bool":
            if primitive not in LOGICAL:
                raise UnsupportedError(f"{primitive} of booleans is not described")
            return lambda *i: LOGICAL[primitive](*cells(i))
        _, size = _read_integer_type(name)
        apply = typed(primitive, name, (lambda *v: function(name, *v)) if size <= 32 else _refuse)
        return lambda *i: apply(*cells(i))

    return description


for _name, _function in BITS.items():
    op(_name)(_describe(_name, _function))


@op("convert_element_type")
def convert_element_type(*x, input_types, output_types, literals=()):
    (before,), (after,) = input_types, output_types
    cells = find_cells(x, literals)
    if "complex" in before and "complex" not in after:
        return lambda *i: real(cells(i)[0])
    if after == "bool":
        return lambda *i: cells(i)[0] != 0
    if "int" in after and "int" not in before:
        return lambda *i: trunc(cells(i)[0] + 0.0)
    if "int" in after:
        whole = typed("convert", after, lambda v: _wrap(v, after)) if after[-2:] != "64" else None
        return lambda *i: cells(i)[0] + 0.0 if whole is None else whole(cells(i)[0])
    return lambda *i: cells(i)[0] + 0.0  # rounding to a shorter float is within the tolerance


@op("bitcast_convert_type")
def bitcast_convert_type(x, *, input_types, output_types):
    (before,), (after,) = input_types, output_types
    bits, new_bits = (_count_bits(name) for name in (before, after))
    cast = lambda cells: np.ascontiguousarray(cells, _find_type(before)).view(_find_type(after))
    is_exact = not {"int64", "uint64"} & {before, after} and min(bits, new_bits) >= 8
    if bits == new_bits:
        cell = typed(f"bits_of_{before}", after, cast if is_exact else _refuse)
        return lambda *i: cell(x[i])
    line = Opaque(cast if is_exact else _refuse, f"bits_of_{before}_as_{after}")
    if bits < new_bits:  # elements along the last dimension are merged
        return lambda *i: line(x[(*i, slice(None))])[0]
    last = {f"i{x.ndim}": bits // new_bits}
    return output(numbered("i", x.ndim + 1), lambda *i: line(x[i[:-1]])[i[-1]], last)


def _count_bits(name):
    return int(re.search(r"\d+", name)[0]) if name != "bool" else 8


def _find_type(name):
    return np.dtype(getattr(import_module("ml_dtypes"), name, name))


@op("reduce_precision")
def reduce_precision(x, *, exponent_bits, mantissa_bits):
    def rounded(v):
        mantissa, exponent = np.frexp(v)
        return np.where(
            np.isfinite(v), np.ldexp(np.rint(np.ldexp(mantissa, mantissa_bits + 1)), exponent - mantissa_bits - 1), v
        )

    cut = typed("precision", f"{mantissa_bits}_bits", rounded)
    return lambda *i: cut(x[i])
