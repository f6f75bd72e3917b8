"""Memory that MXNet has allocated for a bound graph."""

from collections.abc import Iterable
from typing import Any

import mxnet as mx

from tofu import _mxnet


def allocated_bytes(executor: Any, devices: int, others: Iterable[Any] = ()) -> list[int]:
    """Run the executor once, and return the bytes that are allocated on each device."""
    storages = {}

    def note(handle):
        info = _mxnet.storage_info(handle)
        storages[info["device_id"], info["address"]] = info["bytes"]

    executor.set_monitor_callback(lambda _, array: note(getattr(array, "value", array)))
    executor.forward(is_train=True)
    mx.nd.waitall()
    for array in [*executor.arg_arrays, *executor.aux_arrays, *executor.outputs, *others]:
        note(array.handle.value)
    totals = [0] * devices
    for (device, _), size in storages.items():
        totals[device] += size
    return totals
