"""Record when Tofu traces a step, because a call of a described function is then a single equation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

from jax.experimental.xla_metadata import set_xla_metadata

_is_tracing: ContextVar[bool] = ContextVar("is_tracing", default=False)
_has_described = False


def is_tracing() -> bool:
    """Return True while Tofu traces a step, but not inside a described function."""
    return _is_tracing.get()


def expect_described() -> None:
    """Record that there are described functions, which steps may call from now on."""
    global _has_described
    _has_described = True


@contextmanager
def tracing_step() -> Iterator[None]:
    """Return a context in which each call of a described function is one equation.

    JAX caches the traces of functions that are passed to `jax.jit`, `lax.scan` and `jax.checkpoint`. The context sets
    XLA metadata, which is part of the cache key, so that traces with such equations are not used outside of Tofu.
    """
    token = _is_tracing.set(True)
    try:
        with set_xla_metadata(tofu="step") if _has_described else nullcontext():
            yield
    finally:
        _is_tracing.reset(token)


@contextmanager
def within_kernel() -> Iterator[None]:
    """Return a context for the body of a described function, in which other described functions add no equations."""
    if not _is_tracing.get():
        yield
        return
    token = _is_tracing.set(False)
    try:
        with set_xla_metadata(tofu="kernel"):
            yield
    finally:
        _is_tracing.reset(token)
