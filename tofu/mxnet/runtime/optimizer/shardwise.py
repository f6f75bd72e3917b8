"""MXNet's imperative operators on sharded arrays, so that the code of MXNet's optimizers runs on shards unchanged.

Inside `on_shards()`, this module replaces the function through which MXNet calls its operators. Element-wise operators
then run on each worker's shards. Sums and norms add the results of the distinct shards. Any other operator runs on
whole arrays, on the host.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.ndarray import register

from tdl_ops.mxnet import DESCRIPTIONS
from tdl_ops.mxnet.attributes import parse_attribute
from tofu.analysis import analyse
from tofu.errors import TofuError
from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray, ShardedContext
from tofu.mxnet.runtime.arrays.shards import Region, ShardedTensor, count_writes, cut, paste
from tofu.tdl.expression import RandomElement
from tofu.tdl.tracing import trace
from tofu.tdl.walk import walk

UPDATE_KERNELS = ("ftml_update", "mp_nag_mom_update", "lamb_update_phase", "mp_lamb_update_phase")
"""Prefixes of element-wise update operators that have no description, since no model contains them."""
GROUPED_KERNELS = ("multi_sgd_", "multi_mp_sgd_", "preloaded_multi_")
"""Prefixes of operators that update several weights, each element-wise. Arrays without shards are passed to all workers."""
CONSTANTS = frozenset(("_zeros", "_ones", "_full"))
SUMS = frozenset(("sum", "mean", "norm"))

_invoke, _write_item = register._imperative_invoke, mx.nd.NDArray.__setitem__
Invocation = Callable[[list[Any], Any], Any]  # (inputs, outputs or None) -> MXNet's result


class _Depth(threading.local):
    here = 0


_depth = _Depth()
_installing = threading.Lock()
_installed = 0  # number of open contexts in all threads


@contextmanager
def on_shards() -> Iterator[None]:
    """Let MXNet's imperative operators take sharded arrays inside this context, in this thread."""
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _count(change: int) -> None:
    global _installed
    with _installing:
        if _installed == 0:
            register._imperative_invoke, mx.nd.NDArray.__setitem__ = _invoke_on_shards, _set_item
        _depth.here += change
        _installed += change
        if _installed == 0:
            register._imperative_invoke, mx.nd.NDArray.__setitem__ = _invoke, _write_item


def _set_item(array: Any, key: Any, value: Any) -> None:
    _write_item(array, key, value.tensor.gather() if isinstance(value, ShardedArray) else value)


def _invoke_on_shards(
    handle: int, inputs: list[Any], keys: list[str], values: list[Any], out: Any, is_numpy: bool, as_list: bool
) -> Any:
    if not _depth.here:
        return _invoke(handle, inputs, keys, values, out, is_numpy, as_list)
    outputs = [] if out is None else [out] if isinstance(out, mx.nd.NDArray) else list(out)

    def run(parts: list[Any], targets: Any) -> Any:
        return _invoke(handle, parts, keys, values, targets, is_numpy, as_list)

    name, attributes = _operator_name(handle), dict(zip(keys, values, strict=True))
    sharded = [array.tensor for array in (*inputs, *outputs) if isinstance(array, ShardedArray)]
    if not sharded:
        made = _constant(name, attributes, run) if not inputs and out is None else None
        return run(inputs, out) if made is None else made
    if out is None and name in SUMS and attributes.get("ord", 2) == 2:
        return _add_up(name, inputs[0].tensor, attributes)
    if out is None and name == "multi_sum_sq":
        return mx.nd.concat(*(_sum_of_squares(array) for array in inputs), dim=0)
    if name.startswith(GROUPED_KERNELS):
        return _run_each(run, inputs, out, outputs, sharded[0], cut_whole=False)
    layout = _common_layout([*inputs, *outputs]) if all(isinstance(o, ShardedArray) for o in outputs) else None
    if layout is not None and _is_elementwise(name, len(inputs), len(layout.shape), attributes):
        return _run_each(run, inputs, out, outputs, layout, cut_whole=True)
    return _run_whole(run, inputs, out, outputs)


@cache
def _operator_name(handle: int) -> str:
    name = ctypes.c_char_p()
    mx.base.check_call(mx.base._LIB.MXSymbolGetAtomicSymbolName(ctypes.c_void_p(handle), ctypes.byref(name)))
    return (name.value or b"").decode()


def _is_elementwise(name: str, inputs: int, rank: int, attributes: Mapping[str, Any]) -> bool:
    """Return True if each element of the result only depends on the same element of each input, for any numeric attributes."""
    fixed = {key: str(value) for key, value in attributes.items() if not isinstance(value, (int, float, np.number))}
    return name.startswith(UPDATE_KERNELS) or _is_described_elementwise(
        name, inputs, rank, tuple(fixed.items()), tuple(sorted(attributes.keys() - fixed.keys()))
    )


@cache
def _is_described_elementwise(
    name: str, inputs: int, rank: int, fixed: tuple[tuple[str, str], ...], numbers: tuple[str, ...]
) -> bool:
    description = DESCRIPTIONS.get(name)
    if description is None:
        return False
    attributes = {**dict(fixed), **dict.fromkeys(numbers, "1")}
    shape = (3,) * rank
    try:
        traced = trace(description, attributes, [shape] * inputs, [rank], [shape])
        random = any(isinstance(v, RandomElement) for o in traced.outputs if o.value is not None for v in walk(o.value))
        return not random and analyse(description, attributes, [shape] * inputs, [shape]).elementwise
    except TofuError:
        return False


def _constant(name: str, attributes: Mapping[str, Any], run: Invocation) -> Any:
    """Return the constant that an operator such as zeros creates in a sharded array's context, in that array's layout.

    Return None for any other operator.
    """
    context = attributes.get("ctx")
    if name not in CONSTANTS or not isinstance(context, ShardedContext):
        return None
    shape = attributes["shape"]
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not context.layout.is_like(shape):
        return None
    made = ShardedArray(context.layout.like(shape, attributes.get("dtype", "float32")))
    if name != "_zeros":
        made[:] = 1 if name == "_ones" else attributes["value"]
    return made


def _common_layout(arrays: Sequence[Any]) -> ShardedTensor | None:
    """Return the layout of the arrays after broadcasting, or None if their layouts differ."""
    try:
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        return None
    sharded = [array.tensor for array in arrays if isinstance(array, ShardedArray)]
    spans: list[tuple[tuple[int, int], ...]] = []
    for dimension in range(-len(shape), 0):
        found = {
            tuple(region[dimension] for region in tensor.regions)
            for tensor in sharded
            if len(tensor.shape) >= -dimension and tensor.shape[dimension] == shape[dimension]
        }
        if len(found) > 1 or any(tensor.contexts != sharded[0].contexts for tensor in sharded):
            return None
        whole = ((0, shape[dimension]),) * len(sharded[0].contexts)
        spans.append(found.pop() if found else whole)
    regions = list(zip(*spans, strict=True)) if spans else [()] * len(sharded[0].contexts)
    return ShardedTensor(sharded[0].name, shape, sharded[0].dtype, regions, sharded[0].contexts)


def _run_each(
    run: Invocation, inputs: list[Any], out: Any, outputs: list[Any], layout: ShardedTensor, cut_whole: bool
) -> Any:

    def part(array: Any, worker: int) -> Any:
        if isinstance(array, ShardedArray):
            return array.tensor.arrays[worker]
        region = _region_of(array, layout.regions[worker]) if cut_whole else None
        return (array if region is None else cut(array, region)).as_in_context(layout.contexts[worker])

    results = [
        run([part(array, worker) for array in inputs], [part(array, worker) for array in outputs] or None)
        for worker in range(len(layout.contexts))
    ]
    if out is not None:
        return out
    if isinstance(results[0], mx.nd.NDArray):
        return ShardedArray(layout.like(layout.shape, results[0].dtype, results))
    return [ShardedArray(layout.like(layout.shape, arrays[0].dtype, arrays)) for arrays in zip(*results, strict=True)]


def _region_of(array: Any, region: Region) -> Region:
    aligned = region[len(region) - len(array.shape) :]
    return tuple((0, 1) if extent == 1 else span for extent, span in zip(array.shape, aligned, strict=True))


def _add_up(name: str, tensor: ShardedTensor, attributes: Mapping[str, Any]) -> Any:
    """Return a sum, mean or norm of a sharded tensor. The results of the distinct regions are added on the host."""
    reduced, keepdims = _reduced_dimensions(len(tensor.shape), attributes)

    def keep(row: Sequence[Any], instead: Any) -> tuple[Any, ...]:
        kept = [instead if d in reduced else value for d, value in enumerate(row) if keepdims or d not in reduced]
        return tuple(kept) or (instead,)

    reduce = mx.nd.norm if name == "norm" else mx.nd.sum
    total: Any = None
    for worker in tensor.owners:
        partial = reduce(tensor.arrays[worker], axis=reduced, keepdims=keepdims).as_in_context(mx.cpu(0))
        partial = partial * partial if name == "norm" else partial
        if total is None:
            total = mx.nd.zeros(keep(tensor.shape, 1), ctx=mx.cpu(0), dtype=partial.dtype)
        region = keep(tensor.regions[worker], (0, 1))
        paste(cut(total, region) + partial.reshape(tuple(end - begin for begin, end in region)), total, region)
    if name == "mean":
        return total / prod(tensor.shape[dimension] for dimension in reduced)
    return mx.nd.sqrt(total) if name == "norm" else total


def _reduced_dimensions(rank: int, attributes: Mapping[str, Any]) -> tuple[tuple[int, ...], bool]:
    axis, exclude, keepdims = (parse_attribute(attributes.get(key)) for key in ("axis", "exclude", "keepdims"))
    listed = {d % rank for d in ((axis,) if isinstance(axis, int) else axis or ())}
    reduced = set(range(rank)) - listed if exclude else listed or set(range(rank))
    return tuple(sorted(reduced)), bool(keepdims)


def _sum_of_squares(array: Any) -> Any:
    if not isinstance(array, ShardedArray):
        return mx.nd.multi_sum_sq(array, num_arrays=1).as_in_context(mx.cpu(0))
    tensor = array.tensor
    squares = [mx.nd.multi_sum_sq(tensor.arrays[worker], num_arrays=1) for worker in tensor.owners]
    total = squares[0].as_in_context(mx.cpu(0))
    for square in squares[1:]:
        total = total + square.as_in_context(mx.cpu(0))
    return total


def _run_whole(run: Invocation, inputs: list[Any], out: Any, outputs: list[Any]) -> Any:
    wholes: dict[int, tuple[ShardedArray, Any]] = {}
    for array in inputs:
        if isinstance(array, ShardedArray):
            wholes[id(array)] = (array, array.tensor.gather())
    versions = {key: count_writes(whole) for key, (_, whole) in wholes.items()}
    for array in outputs:
        if isinstance(array, ShardedArray) and id(array) not in wholes:
            wholes[id(array)] = (array, array.tensor.gather())
            versions[id(array)] = -1

    def instead(arrays: list[Any]) -> list[Any]:
        return [wholes[id(array)][1] if id(array) in wholes else array for array in arrays]

    result = run(instead(inputs), instead(outputs) or None)
    for key, (array, whole) in wholes.items():
        if count_writes(whole) != versions[key]:
            array.tensor.scatter(whole)
    return result if out is None else out
