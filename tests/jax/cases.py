"""Small functions whose equations, and those of their gradients, have every primitive that is described."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

RNG = np.random.default_rng(0)


def floats(*shape):
    return jnp.asarray(RNG.normal(size=shape), jnp.float32)


def between(low, high, *shape):
    return jnp.asarray(RNG.uniform(low, high, shape), jnp.float32)


def integers(high, *shape):
    return jnp.asarray(RNG.integers(0, high, shape), jnp.int32)


def both(function):
    """A function together with its gradient by all floating arguments."""

    def run(*args):
        which = [n for n, a in enumerate(args) if a.dtype == jnp.float32]

        def whole(*x):
            return function(*(x[which.index(n)] if n in which else a for n, a in enumerate(args)))

        out, pull = jax.vjp(whole, *(args[n] for n in which))
        return out, pull(jax.tree.map(jnp.cos, out))

    return run


def convolve(x, w, stride=1, padding="SAME", dilation=1, groups=1):
    return lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        padding,
        rhs_dilation=(dilation, dilation),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def pool(initial, function, size=2):
    return lambda x: lax.reduce_window(x, initial, function, (1, size, size, 1), (1, 2, 2, 1), "SAME")


def each(*functions):
    return lambda x: tuple(function(x) for function in functions)


def scan(x, w, reverse=False):
    return lax.scan(lambda h, y: (jnp.tanh(y + h @ w),) * 2, jnp.zeros((4, 8)), x, reverse=reverse)[1]


def at(mode):
    return both(lambda w, i: w.at[i].get(mode=mode))


def bits(x):
    return (
        (x & 6) | 1,
        x ^ 5,
        ~x,
        x << 3,
        x >> 1,
        lax.shift_right_logical(x, jnp.asarray(2, x.dtype)),
        lax.population_count(x),
        lax.clz(x),
    )


FUNCTIONS = each(
    jnp.abs, jnp.sign, jnp.floor, jnp.ceil, jnp.round, lax.round, jnp.exp, jnp.exp2, jnp.expm1, jnp.sin, jnp.cos, jnp.tan,
    jnp.sinh, jnp.cosh, jnp.tanh, jnp.arctan, jnp.arcsinh, jnp.cbrt, jnp.square, jax.nn.sigmoid, lax.erf, lax.erfc, jnp.isfinite,
    lambda x: x**3, lambda x: lax.reduce_precision(x, 8, 4), jax.nn.gelu, jax.nn.silu, jax.nn.softplus,
)  # fmt: skip
POSITIVE = each(jnp.log, jnp.log1p, jnp.sqrt, lax.rsqrt, lax.lgamma, lax.digamma, lambda x: x**1.7, jnp.arccosh)
UNIT = each(jnp.arcsin, jnp.arccos, jnp.arctanh, lax.erf_inv)

CASES = {
    "elementwise": (
        both(lambda x, y: jnp.tanh(x) * jax.nn.sigmoid(y) + jnp.exp(x) / (1 + y**2)),
        floats(4, 8),
        floats(4, 8),
    ),
    "functions": (FUNCTIONS, floats(4, 8)),
    "functions of positive numbers": (POSITIVE, between(1.1, 4, 4, 8)),
    "functions of less than one": (UNIT, between(-0.9, 0.9, 4, 8)),
    "two operands": (
        lambda x, y: (jnp.arctan2(x, y), lax.rem(x, y), jnp.nextafter(x, y), jnp.minimum(x, y), x <= y, x >= y, x != y),
        floats(4, 8),
        floats(4, 8),
    ),
    "broadcast": (both(lambda x, y, z: x * y + z), floats(4, 8), floats(1, 8), floats(4, 1)),
    "select": (
        both(lambda x, y: jnp.where(x > 0, x, y) + jnp.maximum(x, y) + jnp.clip(x, -1, 1) + lax.clamp(-1.0, y, 1.0)),
        floats(4, 8),
        floats(4, 8),
    ),
    "integers": (lambda x: ((x + 3) % 5, (x - 20) // 7, x.astype(jnp.float32) / 3), integers(50, 8, 4)),
    "bits": (bits, integers(50, 8, 4) - 20),
    "bits without sign": (bits, (integers(50, 8, 4) - 20).astype(jnp.uint32)),
    "types": (
        lambda x: (
            x.astype(jnp.int32),
            (x > 0).astype(jnp.float32),
            lax.bitcast_convert_type(x, jnp.int32),
            x.astype(bool),
        ),
        3 * floats(4, 8),
    ),
    "booleans": (
        lambda x, y: ((x > 0) & (y > 0) | ~(x > y), (x > 0).all(1), (x > 0).any(0)),
        floats(4, 8),
        floats(4, 8),
    ),
    "dot": (both(lambda x, w: x @ w), floats(4, 8), floats(8, 12)),
    "batched dot": (both(lambda q, k: jnp.einsum("bthe,bshe->bhts", q, k)), floats(2, 4, 4, 8), floats(2, 4, 4, 8)),
    "dot of three": (both(lambda x, w: jnp.einsum("btd,dhe->bthe", x, w)), floats(4, 4, 8), floats(8, 4, 2)),
    "inner product": (both(jnp.dot), floats(8), floats(8)),
    "convolution": (both(convolve), floats(2, 6, 6, 4), floats(3, 3, 4, 6)),
    "convolution, stride": (both(lambda x, w: convolve(x, w, 2)), floats(2, 8, 8, 4), floats(3, 3, 4, 6)),
    "convolution, 1 x 1 stride": (both(lambda x, w: convolve(x, w, 2)), floats(2, 8, 8, 4), floats(1, 1, 4, 6)),
    "convolution, dilated": (both(lambda x, w: convolve(x, w, 1, "SAME", 2)), floats(2, 6, 6, 4), floats(3, 3, 4, 6)),
    "convolution, valid": (both(lambda x, w: convolve(x, w, 1, "VALID")), floats(2, 7, 7, 4), floats(3, 3, 4, 6)),
    "convolution, groups": (both(lambda x, w: convolve(x, w, groups=2)), floats(2, 6, 6, 4), floats(3, 3, 2, 6)),
    "convolution, depthwise": (both(lambda x, w: convolve(x, w, groups=4)), floats(2, 6, 6, 4), floats(3, 3, 1, 4)),
    "convolution, groups, stride": (
        both(lambda x, w: convolve(x, w, 2, groups=2)),
        floats(2, 6, 6, 4),
        floats(3, 3, 2, 6),
    ),
    "max pooling": (both(pool(-jnp.inf, lax.max)), floats(2, 8, 8, 4)),
    "min pooling": (pool(jnp.inf, lax.min), floats(2, 8, 8, 4)),
    "sum pooling": (both(pool(0.0, lax.add)), floats(2, 8, 8, 4)),
    "overlapping pooling": (both(pool(-jnp.inf, lax.max, 3)), floats(2, 8, 8, 4)),
    "reductions": (both(lambda x: (x.sum(1), x.max(0), x.min(2), x.mean((0, 2)), jnp.prod(x, 1))), floats(4, 6, 8)),
    "product": (lambda x: jnp.prod(x, 1), floats(4, 8)),
    "barrier": (both(lambda x, y: sum(lax.optimization_barrier((x, x * y)))), floats(4, 8), floats(4, 8)),
    "bits of floats": (
        lambda x: lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.uint32) >> 9, jnp.float32),
        floats(4, 8),
    ),
    "argmax": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), floats(4, 8)),
    "softmax": (both(jax.nn.log_softmax), floats(4, 8)),
    "logsumexp": (both(lambda x: jax.nn.logsumexp(x, 0)), floats(4, 8)),
    "running": (
        lambda x: (
            jnp.cumsum(x, 1),
            lax.cummax(x, 0),
            lax.cummin(x, 1),
            jnp.cumprod(x, 0),
            lax.cumlogsumexp(x, 0, reverse=True),
        ),
        floats(4, 8),
    ),
    "running sum": (both(lambda x: jnp.cumsum(x, 1)), floats(4, 8)),
    "sort": (lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0), *lax.top_k(x, 3)), floats(4, 8)),
    "sort by two": (lambda x, y: lax.sort((x, y), num_keys=2), integers(3, 4, 8), floats(4, 8)),
    "reshape": (both(lambda x: x.reshape(4, 8, 6).reshape(4, 4, 2, 6).reshape(16, 12)), floats(32, 6)),
    "reshape in another order": (lambda x: lax.reshape(x, (8, 6, 4), (2, 1, 0)), floats(4, 6, 8)),
    "transpose": (both(lambda x: x.transpose(2, 0, 1)), floats(4, 6, 8)),
    "concatenate, slice": (
        both(lambda x, y: jnp.concatenate([x, y, x[:, :2]], 1)[:, 2:10]),
        floats(4, 6),
        floats(4, 4),
    ),
    "strided slice": (both(lambda x: x[::2, 1::3]), floats(8, 12)),
    "split": (both(lambda x: sum(jnp.split(x, 4, 1))), floats(4, 8)),
    "pad": (both(lambda x: jnp.pad(x, ((1, 3), (2, 2)), constant_values=2.5)), floats(4, 8)),
    "pad by less": (lambda x: lax.pad(x, 0.0, ((-1, 3, 0), (1, -2, 2))), floats(4, 8)),
    "reverse": (lambda x: x[::-1], floats(8, 4)),
    "dynamic slice": (both(lambda x, n: lax.dynamic_slice_in_dim(x, n, 2, 0)), floats(8, 4), jnp.int32(3)),
    "dynamic slice beyond the end": (lambda x, n: lax.dynamic_slice_in_dim(x, n, 3, 0), floats(8, 4), jnp.int32(7)),
    "dynamic update": (
        both(lambda x, y, n: lax.dynamic_update_slice_in_dim(x, y, n, 0)),
        floats(8, 4),
        floats(2, 4),
        jnp.int32(3),
    ),
    "embedding": (both(lambda w, i: w[i]), floats(8, 4), integers(8, 4, 6)),
    "embedding, clipped": (at("clip"), floats(8, 4), integers(8, 4, 6) - 12),
    "embedding, filled": (
        both(lambda w, i: w.at[i].get(mode="fill", fill_value=-3.0)),
        floats(8, 4),
        integers(12, 4, 6),
    ),
    "two indices": (both(lambda w, i, j: w[i, :, j]), floats(4, 3, 5), integers(4, 6), integers(5, 6)),
    "a window of another place": (
        lambda w, i: lax.gather(
            w, i, lax.GatherDimensionNumbers((1,), (1,), (0, 1)), (3, 1), mode=lax.GatherScatterMode.CLIP
        ),
        floats(6, 5),
        integers(7, 4, 2),
    ),
    "take along axis": (both(lambda x, i: jnp.take_along_axis(x, i, 1)), floats(4, 8), integers(8, 4, 2)),
    "writes": (
        lambda x, i, u: (x.at[i].set(u), x.at[i].add(u), x.at[i].multiply(u), x.at[i].max(u), x.at[i].min(u)),
        floats(8, 4),
        jnp.asarray([5, 2, 7], jnp.int32),
        floats(3, 4),
    ),
    "additions to one cell": (lambda x, i, u: x.at[i].add(u), floats(4, 3), integers(4, 9), floats(9, 3)),
    "one hot": (lambda i: jax.nn.one_hot(i, 8), integers(8, 4)),
    "iota": (lambda x: x + jnp.arange(8, dtype=jnp.float32), floats(4, 8)),
    "mask": (lambda x: jnp.where(jnp.tril(jnp.ones((8, 8), bool)), x, -1e9), floats(8, 8)),
    "random bits of a key": (
        lambda x: jax.extend.random.threefry2x32_p.bind(*(x[n] for n in range(4))),
        integers(2**31 - 1, 4, 8).astype(jnp.uint32),
    ),
    "dropout": (lambda x: jnp.where(jax.random.bernoulli(jax.random.key(0), 0.5, x.shape), x, 0.0), floats(4, 8)),
    "split keys": (
        lambda x: x * jax.random.normal(jax.random.split(jax.random.fold_in(jax.random.key(1), 2), 3)[1], x.shape),
        floats(4, 8),
    ),
    "scan": (both(scan), floats(4, 4, 8), floats(8, 8)),
    "scan from the end": (lambda x, w: scan(x, w, reverse=True), floats(4, 4, 8), floats(8, 8)),
    "checkpoint": (both(jax.checkpoint(lambda x, w: jnp.sin(x @ w))), floats(4, 8), floats(8, 8)),
    "matrices": (lambda x: jnp.linalg.cholesky(x @ x.swapaxes(1, 2) + 4 * jnp.eye(3)), floats(2, 3, 3)),
    "triangular": (
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True),
        jnp.tril(floats(3, 3)) + 3 * jnp.eye(3),
        floats(3, 2),
    ),
}
