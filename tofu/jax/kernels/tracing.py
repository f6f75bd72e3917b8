"""Context of a trace by Tofu, in which calls of described functions are single equations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

from jax.experimental.xla_metadata import set_xla_metadata

_is_tracing: ContextVar[bool] = ContextVar("is_tracing", default=False)
_has_described = False


def is_tracing() -> bool:
    """Return True while a step is traced, outside of described functions."""
    return _is_tracing.get()


def expect_described() -> None:
    """Note that described functions exist, which steps may call from now on."""
    global _has_described
    _has_described = True


@contextmanager
def tracing_step() -> Iterator[None]:
    """Make one equation of each call of a described function within this context.

    JAX caches traces of functions that `jax.jit`, `lax.scan` and `jax.checkpoint` take. Traces with such equations must
    not be used outside of Tofu, so XLA metadata, which is part of the cache key, is set.
    """
    token = _is_tracing.set(True)
    try:
        with set_xla_metadata(tofu="step") if _has_described else nullcontext():
            yield
    finally:
        _is_tracing.reset(token)


@contextmanager
def within_kernel() -> Iterator[None]:
    """Trace the body of a described function. Described functions within it belong to the same equation."""
    if not _is_tracing.get():
        yield
        return
    token = _is_tracing.set(False)
    try:
        with set_xla_metadata(tofu="kernel"):
            yield
    finally:
        _is_tracing.reset(token)
