"""Tofu: run a training step that was written for one device on several.

>>> import tofu
>>> symbol = tofu.partition(symbol, ngpus=8)  # MXNet  # doctest: +SKIP
>>> step = tofu.partition(step, 8, (state, batch))  # JAX  # doctest: +SKIP

`partition` splits every tensor and every operator over k devices, so that each device needs about 1/k of the memory. It
chooses the split that transfers the fewest bytes between devices. A tensor below 64 KiB may be stored on every device.

`import tofu` is fast: frameworks and native code are loaded on first use. Import Tofu before MXNet, because MXNet alone
cannot be imported with newer versions of NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING
from typing import Any as _Anything

from tofu.errors import (
    ArgumentTypeError,
    DescriptionError,
    DeviceError,
    ExecutionError,
    InfeasibleError,
    InternalError,
    MissingParametersError,
    NotAffineError,
    NotReadyError,
    OutOfMemoryError,
    PlanError,
    ShapeError,
    TofuError,
    UndescribedOperatorError,
    UnsupportedError,
)
from tofu.errors import suggest as _suggest
from tofu.imports import mxnet as _mxnet_import
from tofu.imports.native import import_native as _import_native
from tofu.partition import advise, partition, simulate
from tofu.plan import Plan
from tofu.tdl import Any, Max, Min, Opaque, Prod, Sum

if TYPE_CHECKING:
    from tdl_ops.mxnet import op
    from tofu import gluon as gluon
    from tofu import mod as mod
    from tofu.mxnet.bind import bind
    from tofu.mxnet.frontier import Frontier, frontier
    from tofu.mxnet.memory.report import MemoryReport
    from tofu.mxnet.memory_report import memory_report
    from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol

__version__ = "0.3.0"

_OF_MXNET = {
    "Frontier": "tofu.mxnet.frontier",
    "MemoryReport": "tofu.mxnet.memory.report",
    "PartitionedSymbol": "tofu.mxnet.runtime.symbol.partitioned_symbol",
    "bind": "tofu.mxnet.bind",
    "frontier": "tofu.mxnet.frontier",
    "memory_report": "tofu.mxnet.memory_report",
    "op": "tdl_ops.mxnet",
}


_ELSEWHERE = {
    "module": "tofu.mod.Module",
    "bucketingmodule": "tofu.mod.BucketingModule",
    "symbol": "tofu.partition(symbol, ngpus=...), which returns a tofu.PartitionedSymbol",
    "load": "mx.sym.load, which gives partitioned symbols back, or tofu.mod.Module.load",
}


def __getattr__(name: str) -> _Anything:
    if name in ("gluon", "jax", "mod"):
        return import_module(f"tofu.{name}")
    if name == "_core":
        return _import_native("_core")
    if name not in _OF_MXNET:
        place = _ELSEWHERE.get(name.lower())
        near = f": use {place}" if place else _suggest(name, __all__)
        raise AttributeError(f"module 'tofu' has no attribute {name!r}{near}")
    value = getattr(import_module(_OF_MXNET[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_mxnet_import.install()

__all__ = [
    "Any",
    "ArgumentTypeError",
    "DescriptionError",
    "DeviceError",
    "ExecutionError",
    "Frontier",
    "InfeasibleError",
    "InternalError",
    "Max",
    "MemoryReport",
    "Min",
    "MissingParametersError",
    "NotAffineError",
    "NotReadyError",
    "Opaque",
    "OutOfMemoryError",
    "PartitionedSymbol",
    "Plan",
    "PlanError",
    "Prod",
    "ShapeError",
    "Sum",
    "TofuError",
    "UndescribedOperatorError",
    "UnsupportedError",
    "advise",
    "bind",
    "frontier",
    "gluon",
    "memory_report",
    "mod",
    "op",
    "partition",
    "simulate",
]
