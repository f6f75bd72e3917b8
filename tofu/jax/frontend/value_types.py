"""Types of the arrays in a traced step: shape, element type, and weak type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import primitives


@dataclass(frozen=True)
class ValueType:
    """The shape and element type of an array. The elements may be keys of `jax.random`."""

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool = False

    @property
    def is_key(self) -> bool:
        """True if the elements are keys of `jax.random`."""
        return _is_extended(self.dtype)

    @property
    def dtype_name(self) -> str:
        """Name of the element type, such as "float32"."""
        return _find_name(self.dtype)

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return _count_item_bytes(self.dtype)

    def with_shape(self, *shape: int) -> ValueType:
        """Return this type with another shape."""
        return ValueType(shape, self.dtype, self.weak_type)


@cache
def _is_extended(dtype: Any) -> bool:
    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.extended))


@cache
def _find_name(dtype: Any) -> str:
    return str(dtype)


@cache
def _count_item_bytes(dtype: Any) -> int:
    if not _is_extended(dtype):
        return int(np.dtype(dtype).itemsize)
    data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype))
    return int(data.size * data.dtype.itemsize)


def find_limit(sign: int, dtype: Any) -> Any:
    """Return the largest number of a type, which may be infinity. For `sign=-1`, return the smallest."""
    if jnp.issubdtype(dtype, jnp.complexfloating):  # ordered by their real part, then by their imaginary part
        return complex(sign * np.inf, sign * np.inf)
    if jnp.issubdtype(dtype, jnp.floating) and np.isinf(np.asarray(np.inf, dtype).astype(np.float32)):
        return sign * np.inf
    limits = jnp.finfo(dtype) if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype)
    return limits.max if sign > 0 else limits.min


def read_type(aval: Any) -> ValueType:
    """Return the type of an array, or of JAX's placeholder for an array."""
    return ValueType(tuple(aval.shape), aval.dtype, bool(getattr(aval, "weak_type", False)))


def as_type(value: Any, type_: ValueType) -> Any:
    """Return `value` with the weak type of `type_`. Shape and dtype must already be those of `type_`."""
    if type_.is_key or bool(value.weak_type) == type_.weak_type:
        return value
    convert = primitives.convert_element_type_p
    return convert.bind(value, new_dtype=type_.dtype, weak_type=type_.weak_type, sharding=None)


def find_dtype(leaf: Any) -> Any:
    """Return JAX's dtype of an array, a `jax.ShapeDtypeStruct`, or a Python number."""
    if isinstance(leaf, jax.Array):
        return leaf.dtype
    dtype = leaf.dtype if hasattr(leaf, "dtype") else jax.numpy.result_type(leaf)
    return dtype if jax.dtypes.issubdtype(dtype, jax.dtypes.extended) else jax.dtypes.canonicalize_dtype(dtype)
