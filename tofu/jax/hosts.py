"""Run a step on several hosts: describe the interconnect, and check that all processes agree.

Each process of `jax.distributed` counts as one host.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from math import prod
from typing import Any
from zlib import crc32

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tofu.errors import DeviceError, PlanError, UnsupportedError, raise_together
from tofu.jax.frontend.versions import reserve_threads
from tofu.jax.placement import find_process, is_global, read_host_value
from tofu.plan import Plan
from tofu.search.topology import Level, Topology

HOST_BYTES_PER_SECOND = 12.5e9
"""Bytes per second that a host receives from other hosts (100 Gbit/s), unless the user passes a topology."""
DEVICE_BYTES_PER_SECOND = 200e9
"""Bytes per second that a device receives from other devices of its host, unless the user passes a topology."""


def list_devices(workers: int) -> list[Any]:
    """Return `workers` devices, equally many from each process. Raise DeviceError if there are too few."""
    reserve_threads()
    all_devices = sorted(jax.devices(), key=find_process)  # stable: keeps JAX's order within a process
    hosts = [list(devices) for _, devices in groupby(all_devices, find_process)]
    if len(all_devices) < workers:
        raise DeviceError(
            f"{workers} devices are asked for, and JAX has {len(all_devices)} ({all_devices[0].platform}). Use fewer. On a CPU, "
            f'call jax.config.update("jax_num_cpu_devices", {workers}) before JAX is used, or set the environment variable '
            f"XLA_FLAGS=--xla_force_host_platform_device_count={workers}."
        )
    devices_per_host, remainder = divmod(workers, len(hosts))
    if remainder or min(map(len, hosts)) < devices_per_host:
        raise DeviceError(
            f"{workers} devices are asked for, and {len(hosts)} processes have {' + '.join(str(len(host)) for host in hosts)}. "
            "Each gives equally many: ask for a number that they share equally, or give a list of devices."
        )
    return [device for host in hosts for device in host[:devices_per_host]]


def check_devices(devices: Sequence[Any]) -> None:
    """Raise DeviceError if a device occurs twice, or if none belongs to this process."""
    repeated = [device for device, count in Counter(devices).items() if count > 1]
    if repeated:
        raise DeviceError(
            f"{repeated[0]} is listed {list(devices).count(repeated[0])} times. Each worker needs a separate device."
        )
    if devices and all(find_process(device) != jax.process_index() for device in devices):
        raise DeviceError(
            f"Process {jax.process_index()} has none of the {len(devices)} devices. Give some of each process, or leave the step to those "
            "that have them."
        )


def find_topology(devices: Sequence[Any]) -> Topology | None:
    """Describe the interconnect by two levels: between hosts, and within a host.

    `devices` must list several hosts one after another, each with the same number of devices (2 or more). Otherwise,
    return None.
    """
    processes = list(map(find_process, devices))
    hosts = list(dict.fromkeys(processes))
    devices_per_host, remainder = divmod(len(processes), len(hosts))
    if len(hosts) == 1 or devices_per_host == 1 or remainder:
        return None
    if processes != [host for host in hosts for _ in range(devices_per_host)]:
        return None
    host_level = Level(len(hosts) * HOST_BYTES_PER_SECOND, len(hosts))
    return Topology((host_level, Level(len(processes) * DEVICE_BYTES_PER_SECOND, devices_per_host)))


def count_host_bytes(mesh: Mesh, level_bytes: Sequence[int]) -> int:
    """Return the bytes that one step transfers between processes.

    `level_bytes` has the bytes that cross each level of the interconnect, highest level first.
    """
    processes = np.vectorize(find_process, otypes=[int])(mesh.devices)
    return sum(
        count
        for level, count in enumerate(level_bytes)
        if np.ptp(processes.reshape(prod(processes.shape[:level]), -1), 1).any()
    )


class ProcessAgreement:
    """A check that all processes use the same plan and equal arguments.

    An argument is checked only when it is first passed. All processes must make the same calls in the same order.
    """

    def __init__(self, mesh: Mesh, plan: Plan, names: Sequence[Sequence[str]]) -> None:
        self._mesh, self._plan, self._names = mesh, plan, names
        self._has_single_process = len({find_process(device) for device in mesh.devices.flat}) == 1
        self._checked_positions: dict[int, set[int]] = {}  # argument -> positions of its checked leaves
        self._has_checked_plan = False

    def check(self, arguments: Mapping[int, Sequence[Any]]) -> None:
        """Raise PlanError if processes have different plans, or UnsupportedError for different arguments.

        `arguments` maps positions to lists of arrays. Arguments that were checked before are skipped.
        """
        if self._has_single_process:
            return
        unchecked = [argument for argument, leaves in arguments.items() if self._list_unchecked(argument, leaves)]
        if self._has_checked_plan and not unchecked:
            return
        names = [name for argument in unchecked for name in self._names[argument]]
        leaves = [leaf for argument in unchecked for leaf in arguments[argument]]
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):  # a traced value has no checksum yet
            return
        digest = hashlib.sha256(self._plan.to_json().encode()).digest()[:16]
        checksums = [*np.frombuffer(digest, np.uint32), *map(_checksum, leaves)]
        row_by_process = self._gather_checksums(np.array(checksums, np.uint32))
        first, *others = row_by_process
        plan_by_process = {process: row[:4].tobytes().hex() for process, row in row_by_process.items()}
        for process in others:
            if plan_by_process[process] != plan_by_process[first]:
                raise PlanError(
                    f"Process {first} has plan {plan_by_process[first]}, and process {process} has plan {plan_by_process[process]}. "
                    "Plan the same step in all processes, with the same options and versions, or save one plan and pass it to all (plan=)."
                )
        self._has_checked_plan = True
        differing = [
            f"{name}, in process {first} and {process}"
            for position, name in enumerate(names, 4)
            for process in others
            if row_by_process[first][position] != row_by_process[process][position]
        ]
        raise_together(
            UnsupportedError,
            "Complete arguments must be equal in all processes, and these differ (place_part accepts each process's rows):",
            differing,
        )
        for argument in unchecked:
            positions = self._list_unchecked(argument, arguments[argument])
            self._checked_positions.setdefault(argument, set()).update(positions)

    def _list_unchecked(self, argument: int, leaves: Sequence[Any]) -> list[int]:
        # This runs in every step, so it must be fast.
        checked = self._checked_positions.get(argument, ())
        if len(checked) == len(leaves):
            return []
        return [
            n
            for n, leaf in enumerate(leaves)
            if n not in checked and (isinstance(leaf, jax.core.Tracer) or not is_global(leaf))
        ]

    def _gather_checksums(
        self, checksums: np.ndarray[Any, np.dtype[np.uint32]]
    ) -> dict[int, np.ndarray[Any, np.dtype[np.uint32]]]:
        devices = list(self._mesh.devices.flat)
        mesh = Mesh(np.array(devices, object), "device")
        row_sharding, replicated = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("device",), ()))
        rows = jax.make_array_from_callback((len(devices), len(checksums)), row_sharding, lambda _: checksums[None])
        table = np.asarray(jax.jit(lambda x: x, out_shardings=replicated)(rows))
        return {find_process(device): row for device, row in zip(devices, table, strict=True)}


def _checksum(value: Any) -> int:
    return (
        0 if is_global(value) else crc32(np.ascontiguousarray(read_host_value(value)).reshape(-1).view(np.uint8).data)
    )
