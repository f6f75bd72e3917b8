"""Record if Tofu is tracing a step. While it is, each call of a described function becomes one equation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

from jax.experimental.xla_metadata import set_xla_metadata

_is_tracing: ContextVar[bool] = ContextVar("is_tracing", default=False)
_has_described = False


def is_tracing() -> bool:
    """Return True while Tofu traces a step."""
    return _is_tracing.get()


def expect_described() -> None:
    """Record that the program uses `tofu.jax.describe`."""
    global _has_described
    _has_described = True


@contextmanager
def tracing_step() -> Iterator[None]:
    """Turn each call of a described function in the `with` block into one equation.

    JAX does not reuse these traces after the block.
    """
    token = _is_tracing.set(True)
    try:
        with set_xla_metadata(tofu="step") if _has_described else nullcontext():
            yield
    finally:
        _is_tracing.reset(token)


@contextmanager
def within_kernel() -> Iterator[None]:
    """In the `with` block, run described functions as if they had no description."""
    if not _is_tracing.get():
        yield
        return
    token = _is_tracing.set(False)
    try:
        with set_xla_metadata(tofu="kernel"):
            yield
    finally:
        _is_tracing.reset(token)
