"""Transformations of a step: functions of the step, its arguments, and the positions to differentiate at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.jax.random_steps.steps import find_kind

FACTORS = np.array([1.0, 0.7, -0.3], "float32")


class Step:
    def __init__(self, function, style):
        self.function, self.style, self.__name__ = function, style, "step"

    def __call__(self, *args, **named):
        return self.function(*args, **named)


def floats(tree):
    return [jnp.asarray(x) for x in jax.tree.leaves(tree) if find_kind(x) == "float"]


def weigh(tree):
    """Return a scalar that depends on each number of a tree differently."""
    wide = "float64" if jax.config.jax_enable_x64 else "float32"
    return sum(
        jnp.sum(x.astype(wide) * np.cos(1 + np.arange(x.size)).reshape(x.shape).astype(wide)) for x in floats(tree)
    )


def scale(tree, factor):
    def times(x):
        return jnp.asarray(x * factor, jnp.result_type(x)) if find_kind(x) == "float" else x

    return jax.tree.map(times, tree)


def make_loss(f):
    return lambda *a: weigh(f(*a))


def differentiate(f, at):
    return jax.grad(make_loss(f), at)


def fix_others(f, args, at):
    """Return f as a function of the arguments at some positions."""
    return lambda *some: f(*(some[at.index(n)] if n in at else a for n, a in enumerate(args)))


def make_cotangent(x):
    if find_kind(x) != "float":
        return np.zeros(np.shape(x), jax.dtypes.float0)
    return jnp.cos(jnp.arange(np.size(x))).reshape(np.shape(x)).astype(jnp.result_type(x))


def pull_back(f, args, at):
    results, back = jax.vjp(f, *args)
    return results, back(jax.tree.map(make_cotangent, results))


def differentiate_twice(f, args, at):
    return jax.grad(lambda *a: weigh(differentiate(f, at)(*a)), at)(*args)


def hessian(f, args, at):
    """Return second derivatives by the first numbers of each array."""
    some = tuple(args[n] for n in at)

    def put(v, x):
        return jnp.asarray(x).reshape(-1).at[: v.size].set(v).reshape(np.shape(x))

    def loss(v):
        return fix_others(make_loss(f), args, at)(*jax.tree.map(put, v, some))

    return jax.jacrev(jax.jacrev(loss))(jax.tree.map(lambda x: np.asarray(x).reshape(-1)[:3], some))


def iterate(f, args, at):
    """Differentiate a scan that carries the state, or the first argument, of the step."""

    def loss(first, *rest):
        def advance(state, factor):
            out = f(*scale((state, *rest), factor))
            return (jax.tree.map(jnp.asarray, out[0]) if f.style == "state" else scale(state, 0.9)), weigh(out)

        return weigh(lax.scan(advance, jax.tree.map(jnp.asarray, first), FACTORS))

    return jax.grad(loss, at)(*args)


def compose(f, args, at):
    def twice(*a):
        return f(f(*a)[0], *a[1:]) if f.style == "state" else f(*scale(a, weigh(f(*a)) / 10))

    return differentiate(twice, at)(*args)


def batch(args, at, axis=0):
    """Return arguments with three of each at some positions, and the axes for `jax.vmap`."""

    def place(x):
        return min(axis, np.ndim(x))

    def many(x):
        return np.stack([np.asarray(scale(x, factor)) for factor in FACTORS], place(x))

    axes = tuple(jax.tree.map(place, a) if n in at else None for n, a in enumerate(args))
    return tuple(jax.tree.map(many, a) if n in at else a for n, a in enumerate(args)), axes


def map_over(outer, inner, axis=0):
    """Return the transformation of `outer` of `jax.vmap` of `inner`."""

    def run(f, args, at):
        many, axes = batch(args, at, axis)
        return outer(jax.vmap(inner(f, at), in_axes=axes), at)(*many)

    return run


def map_twice(f, args, at):
    """Batch the first position within, and the others outside."""
    many, axes = batch(args, at)
    inner = tuple(axis if n == at[0] else None for n, axis in enumerate(axes))
    outer = tuple(axis if n != at[0] else None for n, axis in enumerate(axes))
    once = jax.vmap(f, in_axes=inner)
    return (jax.vmap(once, in_axes=outer) if len(at) > 1 else once)(*many)


def call_in_rules(f, args, at):
    """Differentiate a `jax.custom_vjp` function whose rules call the step and its gradient."""
    every = tuple(range(len(at)))
    value = fix_others(make_loss(f), args, at)
    loss = jax.custom_vjp(value)
    loss.defvjp(lambda *a: (loss(*a), a), lambda a, g: scale(jax.grad(value, every)(*a), 2 * g))
    return jax.grad(loss, every)(*(args[n] for n in at))


def differentiate_integers(f, args, at):
    at = tuple(n for n, a in enumerate(args) if all(find_kind(x) != "key" for x in jax.tree.leaves(a)))
    return jax.grad(make_loss(f), at, allow_int=True)(*args)


def run_loop(f, args, at):
    def advance(a):
        return lambda i, c: c + weigh(f(*scale(a, 1 - 0.1 * i + c / 100)))

    return jax.grad(lambda *a: lax.fori_loop(0, 2, advance(a), 0.0 * weigh(a)), at)(*args)


def choose(f, args, at):
    def loss(*a):
        return lax.cond(weigh(a) < 1e9, make_loss(f), lambda *a: weigh(a), *a)

    return jax.grad(loss, at)(*args)


def refuse_forward_mode(f, args, at):
    some = tuple(args[n] for n in at)
    return jax.jvp(fix_others(f, args, at), some, jax.tree.map(make_cotangent, some))


def keep(f, at):
    return f


# fmt: off
TRANSFORMATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda f, args, at: f(*args),
    "jit": lambda f, args, at: jax.jit(lambda *a: f(*scale(a, 0.7)))(*args),
    "grad": lambda f, args, at: differentiate(f, at)(*args),
    "value_and_grad": lambda f, args, at: jax.value_and_grad(lambda *a: (weigh(y := f(*a)), y), at, has_aux=True)(*args),
    "vjp": pull_back,
    "vjp of some": lambda f, args, at: pull_back(fix_others(f, args, at), [args[n] for n in at], at),
    "jacrev": lambda f, args, at: jax.jacrev(lambda *a: [x.ravel()[:2] for x in floats(f(*a))], at)(*args),
    "jit(grad)": lambda f, args, at: jax.jit(differentiate(f, at))(*args),
    "grad(jit)": lambda f, args, at: differentiate(jax.jit(f), at)(*args),
    "checkpoint": lambda f, args, at: differentiate(jax.checkpoint(f), at)(*args),
    "keywords": lambda f, args, at: differentiate(lambda *a: f(a[0], **dict(zip("bcd", a[1:], strict=False))), at)(*args),
    "several calls": lambda f, args, at: differentiate(lambda *a: [f(*scale(a, s)) for s in (1, 0.5, -1.5)], at)(*args),
    "composed": compose,
    "custom_vjp": call_in_rules,
    "integers": differentiate_integers,
    "grad(grad)": differentiate_twice,
    "jacrev(jacrev)": hessian,
    "vmap": map_over(keep, keep),
    "vmap at 1": map_over(keep, keep, 1),
    "vmap(vmap)": map_twice,
    "vmap(grad)": map_over(keep, differentiate),
    "grad(vmap)": map_over(differentiate, keep, 1),
    "jit(vmap(grad))": map_over(lambda f, at: jax.jit(f), differentiate),
    "scan": iterate,
    "fori_loop": run_loop,
    "map": lambda f, args, at: differentiate(lambda *a: lax.map(lambda s: f(*scale(a, s)), FACTORS), at)(*args),
    "cond": choose,
    "jvp": refuse_forward_mode,
}
# fmt: on
