"""Commands for a model in a symbol file, such as `plan` or `verify`. Only `verify` allocates arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from tofu.compare.agreement import Agreement
from tofu.errors import PlanError, TofuError
from tofu.mxnet.memory.optimizer_states import OptimizerStates
from tofu.mxnet.memory.report import MemoryReport
from tofu.mxnet.memory_report import report_one_device, report_workers
from tofu.mxnet.planning import plan_in_best_form, plan_task, read_trained
from tofu.mxnet.runtime.symbol.arguments import read_settings
from tofu.mxnet.runtime.symbol.devices import resolve_contexts
from tofu.mxnet.runtime.symbol.files import read_symbol, shapes_as_saved
from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol
from tofu.pipeline import Observer, Partition, Task, observe_by_environment
from tofu.planning.progress import show_progress
from tofu.planning.settings import Settings
from tofu.report.compared_plans import compare_plans, print_plans
from tofu.simulation.advise import Advice, advise
from tofu.simulation.machine import Machine
from tofu.simulation.simulate import DEFAULT_STATES
from tofu.validation import MOST_WORKERS


@dataclass(frozen=True)
class SymbolRequest:
    """The user's request on the command line: a model, the shapes of its inputs, and planning options."""

    name: str
    symbol: Any
    shapes: Mapping[str, tuple[int, ...]]
    settings: Settings

    states = DEFAULT_STATES
    """Number of tensors that an optimizer keeps for each weight, unless the user passes another number."""

    def read(self, observe: Observer | None = None) -> Task:
        """Read the model, and find the ways to split each operator."""
        return read_trained(self.symbol, self.shapes, self.settings, observe)

    def compile(self, observe: Observer | None = None) -> Partition:
        """Plan the model. Raise PlanError if there is only one worker.

        `observe` is called after every pass (stage) of the planner.
        """
        if self.settings.workers == 1:
            raise PlanError(f"--workers is 1; plans are made for 2 to {MOST_WORKERS} workers.")
        with show_progress("planning"):
            observe = observe or observe_by_environment()
            return plan_task(self.read(observe), observe)

    def over(self, workers: int) -> SymbolRequest:
        """Return the same request for another number of workers."""
        return replace(self, settings=self.settings.over(workers))

    def advise(self, machine: Machine, counts: Sequence[int], states: int, report: Callable[[str], None]) -> Advice:
        """Simulate the model on each number of workers in `counts`."""
        make_partition = plan_in_best_form(self.symbol, self.shapes)
        return advise(self.over(1).read(), machine, counts, states, report, make_partition)

    def verify(
        self, dtype: str | None, seed: int, inference: bool, values: Mapping[str, Any], grad_req: str
    ) -> Agreement:
        """Run the model on one device and on all workers, and compare the results."""
        os.environ.setdefault("MXNET_SUBGRAPH_VERBOSE", "0")  # otherwise MXNet announces its backend
        settings = replace(self.settings, for_training=not inference)
        symbol = PartitionedSymbol(self.symbol, settings, resolve_contexts(settings.workers))
        agreement: Agreement = symbol.verify(values=values, grad_req=grad_req, dtype=dtype, seed=seed, **self.shapes)
        return agreement

    def compare(self, batch: int | None, report: Callable[[str], None]) -> Callable[[Console], None]:
        """Compare Tofu's plan with data parallelism, and with a plan made by hand for Transformers.

        Return a function that prints the result.
        """

        def make_partition(settings: Settings) -> Partition:
            return plan_task(replace(self, settings=settings).read())

        plans = list(compare_plans(self.settings, make_partition, report))
        return lambda console: print_plans(console, f"{self.name} on {self.settings.workers} workers", plans)

    def report_memory(self, optimizer: tuple[str | None, Mapping[str, Any]]) -> MemoryReport:
        """Return the memory that training needs. `optimizer` is the optimizer's name and its arguments."""
        states = OptimizerStates(*optimizer)
        if self.settings.workers == 1:
            return report_one_device(self.symbol, self.shapes, states)
        return report_workers(self.compile(), states)


def read_request(
    model: str,
    workers: int | None,
    planning: Mapping[str, Any],
    use: Callable[[SymbolRequest], None],
    shapes: Mapping[str, tuple[int, ...]],
    unroll: str,
    **_: Any,
) -> None:
    """Read the symbol in the file `model`, and call `use` with the request.

    Raise TofuError if the file does not exist or `shapes` is empty.
    """
    if not Path(model).is_file():
        raise TofuError(
            f"There is no file {model}. MODEL is a symbol that MXNet saved, such as model-symbol.json, or a step for JAX, such as "
            "train.py:step."
        )
    if not shapes:
        raise TofuError(
            "--shape is missing: the shape of each input of the symbol, for example --shape data:64,3,224,224."
        )
    symbol = read_symbol(model)
    settings = read_settings(workers, unroll=unroll, **planning)
    with shapes_as_saved(model):
        use(SymbolRequest(Path(model).name, getattr(symbol, "whole", symbol), shapes, settings))
