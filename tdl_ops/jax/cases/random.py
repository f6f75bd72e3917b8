import jax
import jax.numpy as jnp

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import integers
from tofu.verification.numbers import uniform

SEEDS = integers(0, 9, 6)


def words(*shape):
    return integers(0, 2**31 - 1, *shape, dtype="uint32")


def draw_bits(seed, implementation=None):
    return jax.random.bits(jax.random.key(seed, impl=implementation), (5,), "uint32")


def split(seed, count, implementation=None):
    return jax.random.split(jax.random.fold_in(jax.random.key(seed, impl=implementation), seed), count)


def scale(x):
    return x * jax.random.normal(jax.random.split(jax.random.fold_in(jax.random.key(1), 2), 3)[1], x.shape)


CASES = [
    PrimitiveCase("random bits of a key", lambda x: jax.extend.random.threefry2x32_p.bind(*x), words(4, 7)),
    PrimitiveCase(
        "dropout", lambda x: jnp.where(jax.random.bernoulli(jax.random.key(0), 0.5, x.shape), x, 0.0), (4, 7)
    ),
    PrimitiveCase("split keys", scale, (4, 7)),
    PrimitiveCase(
        "draws in single precision", lambda x: x * jax.random.normal(jax.random.key(1), x.shape, jnp.float32), (4, 7)
    ),
    PrimitiveCase("keys of seeds", jax.vmap(jax.random.key), integers(0, 100, 6)),
    PrimitiveCase("keys of keys", jax.vmap(lambda n: split(n, (2, 3))), integers(0, 100, 6)),
    PrimitiveCase("a draw for each key", jax.vmap(draw_bits), SEEDS),
    PrimitiveCase("data of keys", lambda data: jax.random.key_data(jax.random.wrap_key_data(data)), words(6, 2)),
    PrimitiveCase(
        "gamma numbers of keys",
        jax.vmap(lambda n, a: jax.random.gamma(jax.random.key(n), a)),
        SEEDS,
        uniform(0.5, 3, 6, 4),
    ),
    PrimitiveCase("draws of several keys of XLA's own generator", jax.vmap(lambda n: draw_bits(n, "rbg")), SEEDS),
    PrimitiveCase("keys of several keys of XLA's own generator", jax.vmap(lambda n: split(n, 3, "unsafe_rbg")), SEEDS),
    PrimitiveCase(
        "a draw of one key of XLA's own generator",
        lambda x: x * jax.random.uniform(jax.random.key(3, impl="rbg"), x.shape),
        (4, 7),
    ),
    PrimitiveCase("a copy of keys", jax.vmap(lambda n: jax.random.clone(jax.random.key(n))), SEEDS),
    PrimitiveCase("bits of the backend's generator", lambda key: jax.lax.rng_bit_generator(key, (6, 5)), words(4)),
]
