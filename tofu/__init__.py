"""Tofu: trains a model that was written for one device on several.

>>> import tofu
>>> sym = tofu.partition(sym, ngpus=8)  # doctest: +SKIP

`partition` splits every tensor and every operator of the training graph over the devices, so that each holds about 1/k of the
memory, and chooses the split that moves the fewest bytes. Tensors below 64 KiB may stay whole on all of them.
"""

from __future__ import annotations

import tofu.mxnet.compat  # noqa: F401  first: it makes MXNet importable

# isort: split
import tdl_ops.mxnet as _tdl_ops  # noqa: F401  registers the operator descriptions
from tofu import mod as mod
from tofu.errors import (
    DescriptionError,
    DeviceError,
    ExecutionError,
    InfeasibleError,
    InternalError,
    NotAffineError,
    OutOfMemoryError,
    PlanError,
    ShapeError,
    TofuError,
    UndescribedOperatorError,
    UnsupportedError,
)
from tofu.mxnet.frontier import Frontier, frontier
from tofu.mxnet.runtime.bind import bind
from tofu.mxnet.runtime.files import install_loaders as _install_loaders
from tofu.mxnet.runtime.partitioned_symbol import PartitionedSymbol
from tofu.mxnet.runtime.report_memory import memory_report
from tofu.mxnet.runtime.symbol import partition
from tofu.plan import Plan
from tofu.report.memory import MemoryReport
from tofu.tdl import Any, Max, Min, Opaque, Prod, Sum, op

_install_loaders()

__all__ = [
    "Any",
    "DescriptionError",
    "DeviceError",
    "ExecutionError",
    "Frontier",
    "InfeasibleError",
    "InternalError",
    "Max",
    "MemoryReport",
    "Min",
    "NotAffineError",
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
    "bind",
    "frontier",
    "memory_report",
    "mod",
    "op",
    "partition",
]
