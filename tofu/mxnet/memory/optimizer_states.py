"""Measure the states of an optimizer, such as momentum, on a tiny weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import signature
from math import prod
from typing import Any

import mxnet as mx
import numpy as np

from tofu.errors import TofuError, suggest
from tofu.graph import Tensor


def create_optimizer(name: str, parameters: Mapping[str, Any], **others: Any) -> Any:
    """Create an MXNet optimizer. Raise TofuError for an unknown name or parameter."""
    kinds = mx.optimizer.Optimizer.opt_registry
    kind = kinds.get(name.lower())
    if kind is None:
        is_own = {known: kind.__module__.startswith("mxnet.") for known, kind in kinds.items()}
        own = sorted(known for known in kinds if is_own[known] and not known.startswith("_"))  # names of SVRG have a _
        raise TofuError(f"MXNet has no optimizer {name!r}{suggest(name, kinds)}. It has {', '.join(own)}.")
    try:
        return mx.optimizer.create(name, **others, **parameters)
    except (ValueError, TypeError, AssertionError) as error:
        known = sorted({p for base in kind.__mro__[:-1] for p in signature(base).parameters} - {"args", "kwargs"})
        given = ", ".join(f"{key}={value}" for key, value in parameters.items())
        raise TofuError(
            f"MXNet cannot create {name}({given}): {error}. The optimizer takes {', '.join(known)}."
        ) from error


class OptimizerStates:
    """Sizes of the arrays that an optimizer stores for each weight, such as momentum.

    Parameters
    ----------
    optimizer
        The name of an MXNet optimizer, or None for no states.
    parameters
        Arguments of the optimizer, such as `momentum` or `multi_precision`.
    """

    def __init__(self, optimizer: Any, parameters: Mapping[str, Any]) -> None:
        if not isinstance(optimizer, (str, type(None))):
            kind = optimizer.__name__ if isinstance(optimizer, type) else type(optimizer).__name__
            raise TofuError(
                f"optimizer= is a name, for example 'adam', not {kind}; its arguments go to optimizer_params=."
            )
        arguments = ", ".join(f"{name}={value}" for name, value in parameters.items())
        self.name = "no optimizer" if optimizer is None else f"{optimizer}({arguments})"
        self._optimizer = None
        if optimizer is not None:
            self._optimizer = create_optimizer(optimizer, parameters)
        self._known: dict[tuple[str, int], list[tuple[tuple[bool, ...], int]]] = {}

    def list_bytes(self, weight: Tensor, shard: tuple[int, ...]) -> list[int]:
        """Return the bytes of each optimizer state for a shard of `weight` with shape `shard`."""
        key = weight.dtype, len(shard)
        if key not in self._known:
            self._known[key] = list(self._probe(*key))
        return [
            item_bytes * prod(extent for extent, follows in zip(shard, follows_weight, strict=True) if follows)
            for follows_weight, item_bytes in self._known[key]
        ]

    def _probe(self, dtype: str, rank: int) -> Iterator[tuple[tuple[bool, ...], int]]:
        if self._optimizer is None:
            return
        try:
            state = self._optimizer.create_state_multi_precision(0, mx.nd.zeros((2,) * rank, dtype=dtype))
        except (AssertionError, ValueError, mx.base.MXNetError) as error:
            raise TofuError(
                f"{self.name} takes no {dtype} weight with {rank} dimensions: {error or 'it refuses one'}"
            ) from error
        for array in list_arrays(state):
            if len(array.shape) == rank:
                yield tuple(extent == 2 for extent in array.shape), np.dtype(array.dtype).itemsize
            else:
                yield (False,) * rank, array.size * np.dtype(array.dtype).itemsize


def list_arrays(state: Any) -> list[Any]:
    """Return all arrays in an optimizer's state, as a flat list."""
    if isinstance(state, (tuple, list)):
        return [array for item in state for array in list_arrays(item)]
    return [state] if isinstance(state, mx.nd.NDArray) else []
