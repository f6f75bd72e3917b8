"""Place arrays on devices. Each device receives only its own shard."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tofu.errors import DeviceError, ShapeError
from tofu.jax.backend.uneven import UnevenArray, UnevenSharding
from tofu.jax.frontend.static_leaves import NUMBERS
from tofu.jax.frontend.value_types import ValueType

Sharding: TypeAlias = "NamedSharding | UnevenSharding"


def find_process(device: Any) -> int:
    """Return the number of the process that owns a device."""
    return int(device.process_index)


def is_global(value: Any) -> bool:
    """Return True if an array is stored on devices of several processes."""
    return isinstance(value, (jax.Array, UnevenArray)) and not value.is_fully_addressable


def read_host_value(value: Any) -> Any:
    """Convert an array of this process to a NumPy array. Keys of `jax.random` become integers."""
    is_key = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(value) if is_key else value)


def place_array(value: Any, sharding: Sharding) -> Any:
    """Place an array on devices.

    With several processes, pass equal arrays in each process, or an array that is distributed over all processes.
    """
    if isinstance(sharding, UnevenSharding):
        return UnevenArray(_join_shards(value, sharding), sharding)
    if isinstance(value, UnevenArray):
        value = _read_complete(value)
    if sharding.is_fully_addressable or is_global(value):
        return jax.device_put(value, sharding)
    host = read_host_value(value)
    placed = jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])
    return _make_keys(placed, value, sharding)


def place_operand(value: Any, sharding: Sharding) -> Any:
    """Prepare an argument for the compiled step.

    An array is returned unchanged if `jax.jit` can place it itself. An array with overlapping shards is returned as its
    `joined` array.
    """
    if isinstance(sharding, UnevenSharding):
        return _join_shards(value, sharding)
    if isinstance(value, UnevenArray):
        return place_array(value, sharding)
    if isinstance(value, jax.core.Tracer):
        return value
    if not isinstance(value, jax.Array) or not value.committed:
        return value if sharding.is_fully_addressable else place_array(value, sharding)
    # Equality is tested first because it is cheap.
    if value.sharding == sharding or value.sharding.is_equivalent_to(sharding, value.ndim):
        return value
    return place_array(value, sharding)


def place_copy(value: Any, sharding: Sharding) -> Any:
    """Place a copy of a value on devices. If a step reuses the copy's memory (`donate_argnums`), `value` stays valid."""
    placed = place_array(_copy_host_array(value), sharding)
    if isinstance(placed, UnevenArray):
        return placed.copy() if isinstance(value, UnevenArray) else placed
    if not isinstance(value, jax.Array):
        return placed
    shard_shapes = (each.shard_shape(value.shape) for each in (value.sharding, sharding))
    return jnp.copy(placed) if len(set(shard_shapes)) == 1 else placed


def _copy_host_array(value: Any) -> Any:
    # A copy of a Python number would lose its weak type.
    return value if isinstance(value, (jax.Array, UnevenArray, *NUMBERS)) else np.array(value)


def _read_complete(array: UnevenArray) -> Any:
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.extended)
    return jnp.asarray(array) if is_key or is_global(array) else np.asarray(array)


def _join_shards(value: Any, sharding: UnevenSharding) -> Any:
    if isinstance(value, UnevenArray):
        if value.parts == sharding:
            return value.joined
        value = _read_complete(value)
    if isinstance(value, jax.core.Tracer):
        return sharding.join(value)
    if is_global(value):
        return sharding.join_whole(value)
    source = value if isinstance(value, jax.Array) else np.asarray(value)
    return sharding.make_array(source.__getitem__).joined


def copy_repeated_donations(leaves: list[Any], shardings: Sequence[NamedSharding], donated: Sequence[int]) -> None:
    """Copy donated arrays that also occur elsewhere in `leaves`.

    JAX may overwrite donated arrays. After this function, it overwrites only the copies. `donated` are the positions of
    the donated arrays in `leaves`.
    """
    kept_positions = set(range(len(leaves))).difference(donated) if donated else ()
    ids_in_use = {id(leaves[position]) for position in kept_positions}
    for position in donated:
        leaf = leaves[position]
        if id(leaf) in ids_in_use and isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer):
            leaves[position] = place_copy(leaf, shardings[position])
        ids_in_use.add(id(leaf))


def place_local_rows(name: str, local_rows: Any, planned: ValueType, sharding: Sharding) -> Any:
    """Place an array whose rows (dimension 0) are divided equally among the processes.

    The first process passes the first rows, and so on. Scalars must be equal in all processes. Raise ShapeError for a
    wrong number of rows.
    """
    shape = planned.shape
    mesh = (sharding.joined if isinstance(sharding, UnevenSharding) else sharding).mesh
    devices = sorted(mesh.devices.flat, key=find_process)
    processes = sorted(set(map(find_process, devices)))
    if not shape or len(processes) == 1:
        return place_array(_copy_host_array(local_rows), sharding)
    row_count, remainder = divmod(shape[0], len(processes))
    if remainder or np.shape(local_rows) != (row_count, *shape[1:]):
        raise ShapeError(
            f"{name} has shape {np.shape(local_rows)}, and the part of {shape} that each of {len(processes)} processes has is "
            f"{(f'1/{len(processes)} of {shape[0]}' if remainder else row_count, *shape[1:])}."
        )
    host_rows = read_host_value(_copy_host_array(local_rows))
    begin_by_process = {process: n * row_count for n, process in enumerate(processes)}
    begin = begin_by_process[jax.process_index()]

    def read_region(index: tuple[slice, ...]) -> Any:
        first, *other_dimensions = index
        start, stop, _ = first.indices(shape[0])
        return host_rows[(slice(start - begin, stop - begin), *other_dimensions)]

    row_sharding = sharding
    if isinstance(sharding, UnevenSharding) or not _keeps_rows_in_process(sharding, shape, row_count, begin_by_process):
        row_sharding = _split_by_process(devices, len(processes), (row_count, *shape[1:]))
    all_rows = jax.make_array_from_callback((*shape[:1], *host_rows.shape[1:]), row_sharding, read_region)
    placed = _make_keys(all_rows, local_rows, row_sharding)
    return placed if row_sharding is sharding else place_array(placed, sharding)


def _keeps_rows_in_process(
    sharding: NamedSharding, shape: tuple[int, ...], row_count: int, begin_by_process: dict[int, int]
) -> bool:
    for device, index in sharding.devices_indices_map(shape).items():
        start, stop, _ = index[0].indices(shape[0])
        begin = begin_by_process[find_process(device)]
        if start < begin or stop > begin + row_count:
            return False
    return True


def _split_by_process(devices: list[Any], process_count: int, shape: tuple[int, ...]) -> NamedSharding:
    devices_per_process, remainder = divmod(len(devices), process_count)
    if remainder:
        raise DeviceError(
            f"{process_count} processes have {len(devices)} devices, not equally many; parts need that they have."
        )
    mesh = Mesh(np.array(devices, object).reshape(process_count, devices_per_process), ("process", "device"))
    split_dimension = next((d for d, extent in enumerate(shape) if extent % devices_per_process == 0), None)
    names = [["process"], *([] for _ in shape[1:])]
    if split_dimension is not None:
        names[split_dimension].append("device")
    return NamedSharding(mesh, PartitionSpec(*(tuple(axes) or None for axes in names)))


def _make_keys(placed_data: jax.Array, value: Any, sharding: NamedSharding) -> jax.Array:
    if not (isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)):
        return placed_data
    wrap = partial(jax.random.wrap_key_data, impl=jax.random.key_impl(value))
    return jax.jit(wrap, out_shardings=sharding)(placed_data)
