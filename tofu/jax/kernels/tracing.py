"""Whether Tofu traces a step now: then a call of a described function is one equation."""

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
    """Note that there is a described function, which steps may call from now on."""
    global _has_described
    _has_described = True


@contextmanager
def tracing_step() -> Iterator[None]:
    """Context manager that makes one equation of each call of a described function.

    JAX caches traces of functions that `jax.jit`, `lax.scan` and `jax.checkpoint` take. A trace with one equation must not be used outside
    of Tofu, so XLA metadata is set, which is part of the key of these caches.
    """
    token = _is_tracing.set(True)
    try:
        with set_xla_metadata(tofu="step") if _has_described else nullcontext():
            yield
    finally:
        _is_tracing.reset(token)


@contextmanager
def within_kernel() -> Iterator[None]:
    """Context manager for the body of a described function. Described functions within it are part of the same equation."""
    if not _is_tracing.get():
        yield
        return
    token = _is_tracing.set(False)
    try:
        with set_xla_metadata(tofu="kernel"):
            yield
    finally:
        _is_tracing.reset(token)
