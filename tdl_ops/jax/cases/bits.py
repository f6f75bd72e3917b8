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

CASES = [
    *(
        PrimitiveCase(f"bits of {name}", BITS, integers(-20 if name[0] == "i" else 0, 50, 6, 6, dtype=name))
        for name in ("int8", "uint8", "int32", "uint32", "int64", "uint64")
    ),
    PrimitiveCase(
        "types",
        each(
            lambda x: x.astype(jnp.int32),
            lambda x: x.astype(jnp.float32),
            lambda x: (x > 0).astype(float),
            lambda x: x.astype(bool),
            lambda x: x.astype(jnp.int32).astype(jnp.int8),
        ),
        Numbers(-300, 300, (4, 7)),
    ),
    PrimitiveCase(
        "bits of floats",
        lambda x: lax.bitcast_convert_type(
            lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint32) >> 9, jnp.float32
        ),
        (4, 7),
    ),
    PrimitiveCase(
        "bits of doubles", lambda x: lax.bitcast_convert_type(lax.bitcast_convert_type(x, int) + 1, float), (4, 7)
    ),
    *(
        PrimitiveCase(
            f"bits of {name}",
            lambda x, of=name, to=whole: lax.bitcast_convert_type(
                lax.bitcast_convert_type(x.astype(of), to) ^ jnp.asarray(1, to), of
            ),
            (4, 7),
        )
        for name, whole in (("bfloat16", "uint16"), ("float16", "int16"), ("float8_e5m2", "uint8"))
    ),
    *(
        PrimitiveCase(
            f"bits of {name} as several {small}",
            lambda x, of=name, to=small: lax.bitcast_convert_type(lax.bitcast_convert_type(x.astype(of), to)[::-1], of),
            (6, 7),
        )
        for name, small in (("float32", "uint8"), ("float64", "float32"), ("bfloat16", "int8"), ("int32", "int4"))
    ),
    PrimitiveCase("precision", lambda x: lax.reduce_precision(x, 8, 4), (4, 7)),
    PrimitiveCase(
        "booleans",
        lambda x, y: ((x > 0) & (y > 0) | ~(x > y), (x > 0) ^ (y > 0), (x > 0).all(1), (x > 0).any(0)),
        (4, 7),
        (4, 7),
    ),
    PrimitiveCase(
        "reductions of bits",
        each(
            lambda x: lax.reduce(x, np.int32(-1), lax.bitwise_and, (1,)),
            lambda x: lax.reduce(x, np.int32(0), lax.bitwise_or, (0,)),
            lambda x: lax.reduce(x, np.int32(0), lax.bitwise_xor, (1,)),
            lambda x: lax.reduce(x > 10, False, lax.bitwise_xor, (0,)),
        ),
        integers(-20, 50, 6, 7),
    ),
    PrimitiveCase(
        "reductions of long bits",
        lambda x: lax.reduce(x, np.int64(0), lax.bitwise_xor, (1,)),
        integers(-20, 50, 6, 7, dtype="int64"),
    ),
]
