"""Random differentiable operations on arrays.

An operation takes a generator of random choices, two arrays with at least one dimension, and a `Scope`, and returns an array.
The same seed makes the same choices, so JAX may trace an operation several times. Operations bound their results. They add
a constant to operands of sorting, comparison and maximum, so that no two elements are equal.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 24, 33, 40)
LARGEST = 12_000  # elements of a result


@dataclass(frozen=True, eq=False)
class Scope:
    """Arguments of a step that have no derivative, and the nesting depth of an operation in loops and branches."""

    integers: list[Any] = field(default_factory=list)
    flags: list[Any] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    depth: int = 0

    def integer(self, r):
        return r.choice([*self.integers, jnp.int32(r.randint(0, 5))]).ravel()[0]

    def flag(self, r, x):
        return r.choice([*self.flags, x.sum() > 0.1]).ravel()[0]

    def key(self, r):
        return r.choice([*self.keys, jax.random.key(r.randint(0, 99))])


@jax.custom_jvp
def odd_jvp(x):
    """Return sin(x), with a derivative of -3 cos(x)."""
    return jnp.sin(x)


odd_jvp.defjvp(lambda x, t: (odd_jvp(*x), -3 * jnp.cos(x[0]) * t[0]))


@jax.custom_vjp
def odd_vjp(x, y):
    """Return x tanh(y), with derivatives that no differentiation gives."""
    return x * jnp.tanh(y)


odd_vjp.defvjp(lambda x, y: (odd_vjp(x, y), y), lambda y, g: (g * jnp.sin(y) + 0.5, -jnp.clip(g, -1, 1)))


def fit(x, shape):
    """Repeat or cut the elements of x to a shape."""
    count = math.prod(shape)
    if x.shape == tuple(shape):
        return x
    return jnp.tile(x.ravel(), -(-count // x.size))[:count].reshape(shape)


def spread(x):
    """Add a constant that differs between elements."""
    return x + np.asarray(0.3 * np.cos(1.0 + np.arange(x.size)).reshape(x.shape), x.dtype)


def axis(r, x):
    return r.randrange(x.ndim)


def matrix(x):
    return x.reshape(x.shape[0], -1)


def cube(r, x):
    return fit(x, (r.randint(1, 4), r.randint(1, 5), r.randint(5, 12)))


def draw_body(r, scope):
    """Return a random function of an array and a weight, whose result has the shape of the array."""
    names = [n for n in OPERATIONS if scope.depth < 1 or n not in NESTING]
    steps = [(r.choice(names), r.random()) for _ in range(r.randint(1, 2))]

    def run(x, w):
        for name, seed in steps:
            x = jnp.tanh(fit(apply(name, seed, x, w, replace(scope, depth=scope.depth + 1)), x.shape))
        return x

    return run


def contract(r, x, y, scope):
    pairs = [(i, j) for i in range(x.ndim) for j in range(y.ndim) if x.shape[i] == y.shape[j]]
    if not pairs:
        y, pairs = fit(y, (x.shape[-1], r.choice(SIZES))), [(x.ndim - 1, 0)]
    i, j = r.choice(pairs)
    return jnp.tensordot(x, y, ((i,), (j,))) / x.shape[i]


def batched(r, x, y, scope):
    b, i, k = (x := cube(r, x)).shape
    specs = ("bik,bkj->bij", (b, k, 3)), ("bik,jbi->kbj", (4, b, i)), ("bik,bi->bk", (b, i)), ("bik,bik->b", (b, i, k))
    spec, shape = r.choice(specs)
    return jnp.einsum(spec, x, fit(y, shape))


def convolve(r, x, y, scope):
    groups, width, spatial = r.choice([1, 1, 2]), r.randint(1, 3), r.choice([(r.randint(5, 12),), (6, r.randint(5, 9))])
    x = fit(x, (r.randint(1, 4), groups * r.randint(1, 3), *spatial))
    n = len(spatial)
    kernel = fit(y, (groups * r.randint(1, 4), x.shape[1] // groups, *(width,) * n))
    strides, padding, dilation = (
        (r.randint(1, 2),) * n,
        r.choice(["SAME", "VALID", [(2, 1)] * n]),
        (r.choice([1, 1, 2]),) * n,
    )
    if r.random() < 0.2 and not isinstance(padding, str):
        return lax.conv_general_dilated(x, kernel, (1,) * n, padding, lhs_dilation=(2,) * n, feature_group_count=groups)
    return lax.conv_general_dilated(x, kernel, strides, padding, rhs_dilation=dilation, feature_group_count=groups)


def pool(r, x, y, scope):
    x, window, strides = spread(cube(r, x)), (1, 1, r.randint(2, 3)), (1, 1, r.randint(1, 3))
    start, join = r.choice([(-jnp.inf, lax.max), (0.0, lax.add)])
    return lax.reduce_window(x, start, join, window, strides, r.choice(["SAME", "VALID"]))


def index(r, x, y, scope):
    a, i = axis(r, x), scope.integer(r)
    many = np.array([r.randrange(x.shape[a]) for _ in range(r.randint(1, 6))])
    return r.choice(
        [
            lambda: jnp.take(x, i, axis=a, mode=r.choice(["clip", "wrap"])),
            lambda: jnp.take(x, many, axis=a),
            lambda: x[i % x.shape[0]] + x[-1],
            lambda: lax.dynamic_slice_in_dim(x, i, r.randint(1, x.shape[a]), a),
            lambda: jnp.take_along_axis(x, jnp.argmax(spread(x), a, keepdims=True), a),
            lambda: jnp.take_along_axis(x, jnp.argsort(spread(fit(y, x.shape)), a), a),
            lambda: x[(*(slice(None),) * a, slice(None, None, r.choice([2, -1, 3])))],
        ]
    )()


def update(r, x, y, scope):
    i, many, row = scope.integer(r) % x.shape[0], np.array([r.randrange(x.shape[0]) for _ in range(3)]), x.shape[1:]
    first = many[:1]
    return r.choice(
        [
            lambda: x.at[i].set(fit(y, row)),
            lambda: x.at[many].add(fit(y, (3, *row))),
            lambda: x.at[first].multiply(jnp.sin(fit(y, (1, *row))), unique_indices=True),
            lambda: lax.dynamic_update_slice_in_dim(x, fit(y, (1, *row)), i, 0),
            lambda: jax.ops.segment_sum(x, (jnp.arange(x.shape[0]) * 7 + i) % 5, 5),
            lambda: x.at[first].max(fit(y, (1, *row)), unique_indices=True),
        ]
    )()


def scan(r, x, y, scope):
    step, rows, small = draw_body(r, scope), fit(y, (r.randint(1, 4), r.randint(1, 5))), r.random() < 0.5

    def advance(carry, row):
        x, count = carry
        x = jnp.tanh(step(x, y) + fit(row, x.shape)) * (1 + 0.1 * count)
        return (x, count + 1), (x.mean(0) * row.sum() if small else x)

    (last, _), stacked = lax.scan(advance, (x, 0), rows, reverse=r.random() < 0.5)
    return r.choice([last, stacked, last + fit(stacked, last.shape)])


def branch(r, x, y, scope):
    steps = [draw_body(r, scope) for _ in range(r.choice([2, 2, 3]))]
    if len(steps) == 2:
        return lax.cond(scope.flag(r, x), *steps, x, y)
    return lax.switch(scope.integer(r) % 3, steps, x, y)


def control(r, x, y, scope):
    step, count, rounds = draw_body(r, scope), r.randint(0, 3), 1 + scope.integer(r) % 3
    return r.choice(
        [
            lambda: lax.fori_loop(0, count, lambda i, x: step(x, y) + 0.1 * i, x),
            lambda: x * lax.fori_loop(0, rounds, lambda i, y: jnp.sin(y), lax.stop_gradient(y)).sum(),
            lambda: jax.checkpoint(step)(x, y),
            lambda: jax.jit(step)(x, y),
            lambda: jax.vmap(lambda row: step(row, y))(matrix(x)),
            lambda: lax.map(lambda row: step(row, y), matrix(x)[:4]),
            lambda: jax.grad(lambda x: jnp.sin(step(x, y)).sum())(x),
        ]
    )()


def draw(r, x, y, scope):
    key = scope.key(r)
    if r.random() < 0.4:
        return jnp.where(jax.random.bernoulli(key, jnp.float32(0.7), x.shape), x / 0.7, 0)
    key = jax.random.split(key, 3)[1] if r.random() < 0.5 else jax.random.fold_in(key, scope.integer(r))
    return x * (1 + 0.1 * jax.random.normal(key, x.shape, "float32").astype(x.dtype))


def normalize(r, x, y, scope):
    centred = x - x.mean(axis(r, x), keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 0.1) * fit(y, x.shape[-1:])


def solve(r, x, y, scope):
    x = x.astype(jnp.promote_types(x.dtype, "float32"))
    a, b = 4 * jnp.eye(4, dtype=x.dtype) + jnp.tanh(fit(x, (4, 4))), fit(y, (4, 3)).astype(x.dtype)
    return jnp.linalg.solve(a, b) if r.random() < 0.5 else jnp.linalg.cholesky(a @ a.T) @ b


def fourier(r, x, y, scope):
    return jnp.abs(jnp.fft.rfft(x.astype(jnp.promote_types(x.dtype, "float32"))) + 0.1) / 3


def pad(r, x, y, scope):
    value = r.choice([x.dtype.type(0), y.sum()])
    return lax.pad(
        x,
        value,
        [(r.randint(0, 2), r.choice([1, 0, -1 if len(x) > 1 else 2]), r.randint(0, 1))] + [(0, 0, 0)] * (x.ndim - 1),
    )


def constant(r, x, y, scope):
    return x * np.random.default_rng(r.randint(0, 99)).normal(size=x.shape).astype(x.dtype)


# fmt: off
ELEMENTWISE = [
    jnp.tanh, jnp.sin, jax.nn.softplus, jax.nn.relu, jnp.abs, jax.nn.gelu, jnp.arctan, jax.nn.sigmoid, odd_jvp,
    lambda x: jnp.exp(-x * x), lambda x: jnp.where(x > 0.3, x, x * x), lambda x: x * lax.stop_gradient(jnp.sin(x)),
    lambda x: jnp.clip(x, -0.7, 0.9), lambda x: jnp.log1p(x * x), lambda x: x**3 / (1 + x**2),
]
BINARY = [
    jnp.add, jnp.multiply, lambda x, y: jnp.maximum(x, spread(y)), lambda x, y: jnp.minimum(spread(x), y),
    lambda x, y: odd_vjp(*jnp.broadcast_arrays(x, y)),
    lambda x, y: (abs(x) + 0.5) ** jnp.tanh(y), lambda x, y: x / (1 + y * y), lambda x, y: jnp.arctan2(x, 1 + y * y),
    lambda x, y: jnp.where(spread(x) > y, x, jnp.cos(y)), lambda x, y: x - lax.stop_gradient(y),
]
REDUCTIONS = [
    lambda x, **k: jnp.sum(x, **k) / 3, jnp.mean, jnp.var, jax.nn.logsumexp, lambda x, **k: jnp.max(spread(x), **k),
    lambda x, **k: jnp.min(spread(x), **k), lambda x, **k: jnp.prod(1 + 0.2 * jnp.tanh(x), **k),
]
ALONG = [
    lambda x, a: jnp.cumsum(x, a) / x.shape[a], lambda x, a: jnp.cumprod(1 + 0.1 * jnp.tanh(x), a), lax.cumlogsumexp,
    lambda x, a: lax.cummax(spread(x), a), lambda x, a: lax.cumsum(x, a, reverse=True), jax.nn.softmax, jax.nn.log_softmax,
    lambda x, a: lax.associative_scan(jnp.add, x, axis=a) / 4, lambda x, a: jnp.sort(spread(x), a), jnp.flip,
    lambda x, a: lax.top_k(spread(jnp.moveaxis(x, a, -1)), 1)[0], lambda x, a: jnp.repeat(x, 2, a),
    lambda x, a: jnp.roll(x, 2, a), lambda x, a: jnp.moveaxis(x, a, 0),
]
OPERATIONS: dict[str, Callable[..., Any]] = {
    "elementwise": lambda r, x, y, scope: r.choice(ELEMENTWISE)(x),
    "binary": lambda r, x, y, scope: r.choice(BINARY)(x, fit(y, x.shape)),
    "outer": lambda r, x, y, scope: r.choice(BINARY)(x.ravel()[:60, None], y.ravel()[None, :60]),
    "reduction": lambda r, x, y, scope: r.choice(REDUCTIONS)(x, axis=axis(r, x), keepdims=r.random() < 0.5),
    "whole": lambda r, x, y, scope: r.choice(REDUCTIONS)(x, axis=None) * y,
    "along": lambda r, x, y, scope: r.choice(ALONG)(x, axis(r, x)),
    "transpose": lambda r, x, y, scope: jnp.transpose(x, r.sample(range(x.ndim), x.ndim)),
    "reshape": lambda r, x, y, scope: x.reshape(r.choice([(-1,), (x.shape[-1], -1), (1, *x.shape), (-1, 1, x.shape[0])])),
    "concatenate": lambda r, x, y, scope: jnp.concatenate([x, fit(y, x.shape)] + [x] * r.randint(0, 1), axis(r, x)),
    "stack": lambda r, x, y, scope: jnp.stack([x, fit(y, x.shape)], r.randint(0, x.ndim)),
    "triangle": lambda r, x, y, scope: jnp.tril(matrix(x), r.randint(-1, 2)),
    "contract": contract, "batched": batched, "convolve": convolve, "pool": pool, "index": index, "update": update,
    "draw": draw, "normalize": normalize, "solve": solve, "fourier": fourier, "pad": pad, "constant": constant,
    "scan": scan, "branch": branch, "control": control,
}
# fmt: on
NESTING = {"scan", "branch", "control"}


def apply(name, seed, x, y, scope):
    """Apply a random operation; the result has the type of x, at most 4 dimensions, and at most `LARGEST` elements."""
    x, y = jnp.atleast_1d(x), jnp.atleast_1d(y).astype(x.dtype)
    z = OPERATIONS[name](random.Random(seed), x, y, scope)
    while z.size > LARGEST:
        z = z.mean(int(np.argmax(z.shape)))
    return (matrix(z) if z.ndim > 4 else z).astype(x.dtype)
