"""List described JAX operations (primitives) that the installed JAX does not have."""

import jax
from jax.extend.core import primitives

NEWER = ("empty", "empty2", "log2", "one_minus_square", "ormqr", "polynomial", "stack", "tile", "unstack")
"""Primitives that were added after JAX 0.6.2. JAX 0.12 has all of them."""


def list_lacking() -> frozenset[str]:
    """Return the described primitives that this version of JAX cannot run on this device."""
    places = [(jax.lax, "{}"), (jax.lax.linalg, "{}"), (primitives, "{}_p")]
    later = (name for name in NEWER if not any(hasattr(module, form.format(name)) for module, form in places))
    return frozenset((*later, *(() if has_kinds_of_memory() else ("device_put",))))


def has_kinds_of_memory() -> bool:
    """Return True if the default device has several kinds of memory.

    With only one kind, JAX's compiler for CPUs may fail on a `jax.device_put` to this memory.
    """
    return len(jax.devices()[0].addressable_memories()) > 1
