"""Run MXNet's imperative operators, such as `mx.nd.add`, on arrays that are split over workers.

Inside `on_shards()`, an element-wise operator runs on each worker's shard. For a sum or norm, each worker computes the
sum of its shard, and then the sums are added. Any other operator runs on whole arrays, on the host.
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
from tdl_ops.mxnet.reduced import list_reduced
from tofu import _mxnet
from tofu.analysis import analyse
from tofu.errors import TofuError
from tofu.mxnet.runtime.arrays.sharded_array import ShardedArray, ShardedContext
from tofu.mxnet.runtime.arrays.shards import Region, ShardedTensor, count_writes, cut, paste
from tofu.tdl.expression import RandomElement
from tofu.tdl.tracing import trace
from tofu.tdl.walk import walk

UPDATE_KERNELS = ("ftml_update", "mp_nag_mom_update", "lamb_update_phase", "mp_lamb_update_phase")
"""First letters of the names of update operators that compute each element of a weight by itself."""
GROUPED_KERNELS = ("multi_sgd_", "multi_mp_sgd_", "preloaded_multi_")
"""First letters of the names of operators that update several weights, element by element.

All workers get the arrays that are not split.
"""
CONSTANTS = frozenset(("_zeros", "_ones", "_full"))
OPERANDS = frozenset(("scalar", "a_min", "a_max"))
"""Attributes whose values are operands, such as `scalar` in x + scalar. They may be integers."""
SUMS = frozenset(("sum", "mean", "norm"))

_invoke_whole, _set_whole_item = register._imperative_invoke, mx.nd.NDArray.__setitem__
Invocation = Callable[[list[Any], Any], Any]  # called with inputs, and with outputs or None


class _OpenContexts(threading.local):
    count = 0  # how many `on_shards` blocks are open in this thread


_open_contexts = _OpenContexts()
_installation_lock = threading.Lock()
_open_contexts_of_all_threads = 0


@contextmanager
def on_shards() -> Iterator[None]:
    """In a `with` block, let `mx.nd` operators of this thread accept sharded arrays."""
    _count_context(1)
    try:
        yield
    finally:
        _count_context(-1)


def _count_context(change: int) -> None:
    global _open_contexts_of_all_threads
    with _installation_lock:
        if _open_contexts_of_all_threads == 0:
            register._imperative_invoke, mx.nd.NDArray.__setitem__ = _invoke_on_shards, _set_item
        _open_contexts.count += change
        _open_contexts_of_all_threads += change
        if _open_contexts_of_all_threads == 0:
            register._imperative_invoke, mx.nd.NDArray.__setitem__ = _invoke_whole, _set_whole_item


def _set_item(array: Any, key: Any, value: Any) -> None:
    _set_whole_item(array, key, value.tensor.gather() if isinstance(value, ShardedArray) else value)


def _invoke_on_shards(
    handle: int, inputs: list[Any], keys: list[str], values: list[Any], out: Any, is_numpy: bool, as_list: bool
) -> Any:
    if not _open_contexts.count:
        return _invoke_whole(handle, inputs, keys, values, out, is_numpy, as_list)
    outputs = [] if out is None else [out] if isinstance(out, mx.nd.NDArray) else list(out)

    def run(run_inputs: list[Any], run_outputs: Any) -> Any:
        return _invoke_whole(handle, run_inputs, keys, values, run_outputs, is_numpy, as_list)

    name, attributes = _find_operator_name(handle), dict(zip(keys, values, strict=True))
    sharded = [array.tensor for array in (*inputs, *outputs) if isinstance(array, ShardedArray)]
    if not sharded:
        constant = _create_constant(name, attributes) if not inputs and out is None else None
        return run(inputs, out) if constant is None else constant
    if out is None and name in SUMS and attributes.get("ord", 2) == 2:
        return _reduce_shards(name, inputs[0].tensor, attributes)
    if out is None and name == "multi_sum_sq":
        return mx.nd.concat(*(_sum_of_squares(array) for array in inputs), dim=0)
    if name.startswith(GROUPED_KERNELS):
        return _run_on_each_worker(run, inputs, out, outputs, sharded[0], cuts_whole_arrays=False)
    layout = _find_common_layout([*inputs, *outputs]) if all(isinstance(o, ShardedArray) for o in outputs) else None
    if layout is not None and _is_elementwise(name, [array.shape for array in inputs], layout.shape, attributes):
        return _run_on_each_worker(run, inputs, out, outputs, layout, cuts_whole_arrays=True)
    return _run_on_whole_arrays(run, inputs, out, outputs)


@cache
def _find_operator_name(handle: int) -> str:
    name = ctypes.c_char_p()
    mx.base.check_call(mx.base._LIB.MXSymbolGetAtomicSymbolName(ctypes.c_void_p(handle), ctypes.byref(name)))
    return (name.value or b"").decode()


def _is_elementwise(
    name: str, input_shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...], attributes: Mapping[str, Any]
) -> bool:
    if name.startswith(UPDATE_KERNELS):
        return True
    texts = {key: str(value) for key, value in attributes.items() if isinstance(value, (str, bool))}
    numbers = [key for key, value in attributes.items() if key in OPERANDS or isinstance(value, (float, np.floating))]
    if attributes.keys() - texts.keys() - set(numbers):  # such as an axis, or the bounds of a slice
        return False
    plain = {key: str(value) for key, value in attributes.items()}
    if any(output != shape for output in _mxnet.infer_operator(name, plain, input_shapes) or ()):
        return False
    return _is_described_elementwise(name, len(input_shapes), len(shape), tuple(texts.items()), tuple(sorted(numbers)))


@cache
def _is_described_elementwise(
    name: str, inputs: int, rank: int, texts: tuple[tuple[str, str], ...], number_names: tuple[str, ...]
) -> bool:
    description = DESCRIPTIONS.get(name)
    if description is None:
        return False
    attributes = {**dict(texts), **dict.fromkeys(number_names, "1")}
    shape = (3,) * rank
    try:
        traced = trace(description, attributes, [shape] * inputs, [rank], [shape])
        formulas = [output.value for output in traced.outputs if output.value is not None]
        is_random = any(isinstance(element, RandomElement) for formula in formulas for element in walk(formula))
        return not is_random and analyse(description, attributes, [shape] * inputs, [shape]).elementwise
    except TofuError:
        return False


def _create_constant(name: str, attributes: Mapping[str, Any]) -> Any:
    context = attributes.get("ctx")
    if name not in CONSTANTS or not isinstance(context, ShardedContext):
        return None
    shape = attributes["shape"]
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not context.layout.is_like(shape):
        return None
    constant = ShardedArray(context.layout.like(shape, attributes.get("dtype", "float32")))
    if name != "_zeros":
        constant[:] = 1 if name == "_ones" else attributes["value"]
    return constant


def _find_common_layout(arrays: Sequence[Any]) -> ShardedTensor | None:
    try:
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        return None
    sharded = [array.tensor for array in arrays if isinstance(array, ShardedArray)]
    first = sharded[0]
    if any(tensor.contexts != first.contexts for tensor in sharded):
        return None
    spans_by_dimension: list[tuple[tuple[int, int], ...]] = []  # [dimension][worker] -> (begin, end)
    for dimension in range(-len(shape), 0):
        different_spans = {
            tuple(region[dimension] for region in tensor.regions)
            for tensor in sharded
            if len(tensor.shape) >= -dimension and tensor.shape[dimension] == shape[dimension]
        }
        if len(different_spans) > 1:
            return None
        whole = ((0, shape[dimension]),) * len(first.contexts)
        spans_by_dimension.append(different_spans.pop() if different_spans else whole)
    regions = list(zip(*spans_by_dimension, strict=True)) if spans_by_dimension else [()] * len(first.contexts)
    return ShardedTensor(first.name, shape, first.dtype, regions, first.contexts)


def _run_on_each_worker(
    run: Invocation, inputs: list[Any], out: Any, outputs: list[Any], layout: ShardedTensor, cuts_whole_arrays: bool
) -> Any:
    def take_part(array: Any, worker: int) -> Any:
        if isinstance(array, ShardedArray):
            return array.tensor.arrays[worker]
        part = cut(array, _align_region(array, layout.regions[worker])) if cuts_whole_arrays else array
        return part.as_in_context(layout.contexts[worker])

    results = [
        run([take_part(array, worker) for array in inputs], [take_part(array, worker) for array in outputs] or None)
        for worker in range(len(layout.contexts))
    ]
    if out is not None:
        return out
    if isinstance(results[0], mx.nd.NDArray):
        return ShardedArray(layout.like(layout.shape, results[0].dtype, results))
    return [ShardedArray(layout.like(layout.shape, arrays[0].dtype, arrays)) for arrays in zip(*results, strict=True)]


def _align_region(array: Any, region: Region) -> Region:
    last_spans = region[len(region) - len(array.shape) :]
    return tuple((0, 1) if extent == 1 else span for extent, span in zip(array.shape, last_spans, strict=True))


def _reduce_shards(name: str, tensor: ShardedTensor, attributes: Mapping[str, Any]) -> Any:
    reduced, keepdims = _read_reduced_dimensions(len(tensor.shape), attributes)

    def reduce_dimensions(items: Sequence[Any], reduced_item: Any) -> tuple[Any, ...]:
        kept = [reduced_item if d in reduced else item for d, item in enumerate(items) if keepdims or d not in reduced]
        return tuple(kept) or (reduced_item,)

    reduce = mx.nd.norm if name == "norm" else mx.nd.sum
    total: Any = None
    for worker in tensor.owners:
        partial = reduce(tensor.arrays[worker], axis=reduced, keepdims=keepdims).as_in_context(mx.cpu(0))
        if name == "norm":  # squares may overflow
            partial = mx.nd.square(partial.astype("float64"))
        if total is None:
            total = mx.nd.zeros(reduce_dimensions(tensor.shape, 1), ctx=mx.cpu(0), dtype=partial.dtype)
        region = reduce_dimensions(tensor.regions[worker], (0, 1))
        paste(cut(total, region) + partial.reshape(tuple(end - begin for begin, end in region)), total, region)
    if name == "mean":
        return total / prod(tensor.shape[dimension] for dimension in reduced)
    return mx.nd.sqrt(total).astype(tensor.dtype) if name == "norm" else total


def _read_reduced_dimensions(rank: int, attributes: Mapping[str, Any]) -> tuple[tuple[int, ...], bool]:
    axis, exclude, keepdims = (parse_attribute(attributes.get(key)) for key in ("axis", "exclude", "keepdims"))
    return tuple(list_reduced(axis, bool(exclude), rank)), bool(keepdims)


def _sum_of_squares(array: Any) -> Any:
    is_sharded = isinstance(array, ShardedArray)
    shards = [array.tensor.arrays[worker] for worker in array.tensor.owners] if is_sharded else [array]
    squares = [mx.nd.multi_sum_sq(shard, num_arrays=1).as_in_context(mx.cpu(0)) for shard in shards]
    return sum(squares[1:], squares[0])


def _run_on_whole_arrays(run: Invocation, inputs: list[Any], out: Any, outputs: list[Any]) -> Any:
    sharded = {id(array): array for array in (*inputs, *outputs) if isinstance(array, ShardedArray)}
    wholes = {key: array.tensor.gather() for key, array in sharded.items()}
    input_keys = {id(array) for array in inputs}
    writes = {key: count_writes(whole) if key in input_keys else -1 for key, whole in wholes.items()}

    def replace_sharded(arrays: list[Any]) -> list[Any]:
        return [wholes.get(id(array), array) for array in arrays]

    result = run(replace_sharded(inputs), replace_sharded(outputs) or None)
    for key, whole in wholes.items():
        if count_writes(whole) != writes[key]:
            sharded[key].tensor.scatter(whole)
    return result if out is None else out
