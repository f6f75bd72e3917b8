"""Record if Tofu is tracing a step. During tracing, each call of a described function becomes one equation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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


def tracing_step() -> AbstractContextManager[None]:
    """In the `with` block, record each call of a function with a description as one operation.

    JAX does not reuse these traces outside of the block.
    """
    return _set_tracing(True, "step")


def within_kernel() -> AbstractContextManager[None]:
    """In the `with` block, run described functions as if they had no description."""
    return _set_tracing(False, "kernel") if _is_tracing.get() else nullcontext()


@contextmanager
def _set_tracing(is_tracing: bool, mark: str) -> Iterator[None]:
    token = _is_tracing.set(is_tracing)
    try:
        with set_xla_metadata(tofu=mark) if _has_described else nullcontext():
            yield
    finally:
        _is_tracing.reset(token)
