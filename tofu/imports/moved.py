"""Modules of version 0.1 are found under their old names, which scripts and pickles may have."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from operator import attrgetter
from types import ModuleType
from typing import Any

# Where the modules of version 0.1 are now; those below a package are below its new name, under their own.
MOVED = {
    "tdl_ops": "tdl_ops.mxnet",
    "tofu._compat": "tofu.imports.mxnet",
    "tofu.analysis.strategies": "tofu.analysis.axes",
    "tofu.check": "tofu.mxnet.check",
    "tofu.cli": "tofu.command_line.main",
    "tofu.cli_arguments": "tofu.command_line.arguments",
    "tofu.cli_options": "tofu.command_line.options",
    "tofu.compare.judgement": "tofu.mxnet.compare.judgement",
    "tofu.compare.positions": "tofu.mxnet.compare.positions",
    "tofu.compare.runs": "tofu.mxnet.compare.runs",
    "tofu.compare.symbols": "tofu.mxnet.compare.symbols",
    "tofu.compare.taint": "tofu.mxnet.compare.taint",
    "tofu.compare.values": "tofu.mxnet.compare.values",
    "tofu.execution": "tofu.mxnet.backend",
    "tofu.execution.emit": "tofu.mxnet.backend.execution_graph",
    "tofu.execution.memory": "tofu.mxnet.backend.buffers",
    "tofu.fitting": "tofu.planning.fitting",
    "tofu.graph.mxnet": "tofu.mxnet.frontend.read_symbol",
    "tofu.graph.refusals": "tofu.mxnet.frontend.refusals",
    "tofu.graph.symbol_text": "tofu.mxnet.frontend.symbol_text",
    "tofu.lowering.batch_norm": "tofu.mxnet.lowerings.batch_norm",
    "tofu.lowering.layer_norm": "tofu.mxnet.lowerings.layer_norm",
    "tofu.lowering.make_loss": "tofu.mxnet.lowerings.loss",
    "tofu.lowering.one_hot": "tofu.mxnet.lowerings.one_hot",
    "tofu.lowering.pick": "tofu.mxnet.lowerings.pick",
    "tofu.lowering.pooling": "tofu.mxnet.lowerings.pooling",
    "tofu.lowering.registry": "tofu.lowering.parts",
    "tofu.lowering.scratch": "tofu.mxnet.lowerings.scratch",
    "tofu.lowering.sequence": "tofu.mxnet.lowerings.sequence",
    "tofu.lowering.settling": "tofu.lowering.choice",
    "tofu.lowering.softmax": "tofu.mxnet.lowerings.softmax",
    "tofu.lowering.softmax_output": "tofu.mxnet.lowerings.softmax_output",
    "tofu.lowering.take": "tofu.mxnet.lowerings.take",
    "tofu.lowering.unwritten": "tofu.mxnet.lowerings.unwritten",
    "tofu.memory_limit": "tofu.planning.memory_limit",
    "tofu.model_commands": "tofu.command_line.models",
    "tofu.operator_commands": "tofu.command_line.operators",
    "tofu.report.memory_table": "tofu.report.memory",
    "tofu.report.operator_tables": "tofu.mxnet.verify.tables",
    "tofu.report.optimizer_states": "tofu.mxnet.memory.optimizer_states",
    "tofu.report.workspace": "tofu.mxnet.memory.workspace",
    "tofu.runtime": "tofu.mxnet.runtime",
    "tofu.runtime.host_memory": "tofu.host.host_memory",
    "tofu.runtime.interrupts": "tofu.host.interrupts",
    "tofu.runtime.memory": "tofu.mxnet.runtime.report_memory",
    "tofu.runtime.progress": "tofu.planning.progress",
    "tofu.runtime.writing": "tofu.host.writing",
    "tofu.search.feeding": "tofu.search.validation",
    "tofu.search.following": "tofu.search.propagation",
    "tofu.search.holding": "tofu.search.memory_weights",
    "tofu.search.wiring": "tofu.search.dataflow",
    "tofu.tdl.attributes": "tdl_ops.mxnet.attributes",
    "tofu.verify": "tofu.mxnet.verify",
    "tofu.verify.cases": "tdl_ops.mxnet.cases",
    "tofu.verify.comparison": "tofu.verification.comparison",
    "tofu.verify.report": "tofu.verification.report",
    "tofu.verify.split": "tofu.verification.split",
    "tofu.verify.windows": "tofu.verification.windows",
}
# Modules of 0.1 whose names are now those of functions: only pickles name them.
HIDDEN = {"tofu.frontier": "tofu.mxnet.frontier", "tofu.partition": "tofu.mxnet.partition"}
STAYED = frozenset(("tdl_ops", "tdl_ops.mxnet", "tdl_ops.jax"))
# Names of tofu.tdl that were about the one registry that there was, MXNet's.
OF_REGISTRY = {"op": "op", "lookup": "DESCRIPTIONS.get", "registered": "DESCRIPTIONS.copy"}


def find_new_name(name: str) -> str | None:
    """The name of a module that 0.1 had under another one."""
    if name in STAYED or name.startswith(("tdl_ops.mxnet.", "tdl_ops.jax.")):
        return None
    parent, rest = name, ""
    while parent:
        if parent in MOVED:
            return MOVED[parent] + rest
        parent, _, last = parent.rpartition(".")
        rest = f".{last}{rest}"
    return None


class MovedModules(MetaPathFinder):
    """Finds modules of 0.1 under their old names, with a DeprecationWarning."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module that has taken the place of `fullname`; None for any other."""
        if not fullname.startswith(("tofu.", "tdl_ops.")):
            return None
        new = find_new_name(fullname)
        return None if new is None else spec_from_loader(fullname, _Moved(new))


class _Moved(Loader):
    def __init__(self, new: str) -> None:
        self._new = new

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        warnings.warn(f"{old} is {self._new} now", DeprecationWarning, stacklevel=2)
        sys.modules[old] = import_module(self._new)


class _Hidden(ModuleType):
    """Stands for a module in `sys.modules` until one of its names is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(HIDDEN[self.__name__]), name)


def find_name_of_registry(name: str) -> Any:
    """What `tofu.tdl` of 0.1 had under a name, with a DeprecationWarning."""
    if name not in OF_REGISTRY:
        raise AttributeError(f"module 'tofu.tdl' has no attribute {name!r}")
    warnings.warn(f"tofu.tdl.{name} is tdl_ops.mxnet.{OF_REGISTRY[name]} now", DeprecationWarning, stacklevel=2)
    return attrgetter(OF_REGISTRY[name])(import_module("tdl_ops.mxnet"))


def install() -> None:
    """Have Python ask for moved modules here before it looks for them itself."""
    sys.meta_path.insert(0, MovedModules())
    vars(import_module("tofu.tdl"))["__getattr__"] = find_name_of_registry
    for name in HIDDEN:
        sys.modules.setdefault(name, _Hidden(name))
