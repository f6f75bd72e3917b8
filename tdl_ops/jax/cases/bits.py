import jax.numpy as jnp
import numpy as np
from jax import lax

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import each, integers
from tofu.verification.numbers import Numbers

BITS = each(
    lambda x: (x & 6) | 1,
    lambda x: x ^ 5,
    lambda x: ~x,
    lambda x: x << 3,
    lambda x: x >> 1,
    lambda x: lax.shift_right_logical(x, jnp.asarray(2, x.dtype)),
    lax.population_count,
    lax.clz,
    lambda x: x & x.T,
)


def cast(x, name, whole):
    return lax.bitcast_convert_type(x.astype(name), whole)


def flip(name, whole):
    return lambda x: lax.bitcast_convert_type(cast(x, name, whole) ^ jnp.asarray(1, whole), name)


def reverse(name, small):
    return lambda x: lax.bitcast_convert_type(cast(x, name, small)[::-1], name)


def convert(x):
    return (
        x.astype(jnp.int32),
        x.astype(jnp.float32),
        (x > 0).astype(float),
        x.astype(bool),
        x.astype("int32").astype("int8"),
    )


def combine(x, y):
    return (x > 0) & (y > 0) | ~(x > y), (x > 0) ^ (y > 0), (x > 0).all(1), (x > 0).any(0)


def fold(start, join, axis):
    return lambda x: lax.reduce(x, start, join, (axis,))


FOLDS = each(
    fold(np.int32(-1), lax.bitwise_and, 1),
    fold(np.int32(0), lax.bitwise_or, 0),
    fold(np.int32(0), lax.bitwise_xor, 1),
    lambda x: lax.reduce(x > 10, False, lax.bitwise_xor, (0,)),
)
LONG = integers(-20, 50, 6, 7, dtype="int64")
HALVES = (("bfloat16", "uint16"), ("float16", "int16"), ("float8_e5m2", "uint8"))
PIECES = (("float32", "uint8"), ("float64", "float32"), ("bfloat16", "int8"), ("int32", "int4"))

CASES = [
    *(
        PrimitiveCase(f"bits of {name}", BITS, integers(-20 if name[0] == "i" else 0, 50, 6, 6, dtype=name))
        for name in ("int8", "uint8", "int32", "uint32", "int64", "uint64")
    ),
    PrimitiveCase("types", convert, Numbers(-300, 300, (4, 7))),
    PrimitiveCase(
        "bits of floats", lambda x: lax.bitcast_convert_type(cast(x, "float32", "uint32") >> 9, "float32"), (4, 7)
    ),
    PrimitiveCase("bits of doubles", lambda x: lax.bitcast_convert_type(cast(x, float, int) + 1, float), (4, 7)),
    *(PrimitiveCase(f"bits of {name}", flip(name, whole), (4, 7)) for name, whole in HALVES),
    *(PrimitiveCase(f"bits of {name} as several {small}", reverse(name, small), (6, 7)) for name, small in PIECES),
    PrimitiveCase("precision", lambda x: lax.reduce_precision(x, 8, 4), (4, 7)),
    PrimitiveCase("booleans", combine, (4, 7), (4, 7)),
    PrimitiveCase("reductions of bits", FOLDS, integers(-20, 50, 6, 7)),
    PrimitiveCase("reductions of long bits", fold(np.int64(0), lax.bitwise_xor, 1), LONG),
]
