"""Compile a step under several plans, and compare their communication, memory and arithmetic."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress
from typing import Any

import jax
from jax.sharding import SingleDeviceSharding
from rich.console import Console
from rich.table import Table

from tofu.engine import Source
from tofu.errors import DeviceError, TofuError, on_one_line
from tofu.jax.compare.peers import PEERS, Arguments, Peer, make_mesh
from tofu.jax.compare.traffic import count_traffic
from tofu.jax.engine import JAX_LIMITING_ARGUMENTS
from tofu.jax.frontend.read_step import count_state
from tofu.jax.frontend.static_leaves import flatten_arrays
from tofu.jax.hosts import list_devices
from tofu.jax.partitioned_step import PartitionedStep
from tofu.jax.planning import plan_step
from tofu.plan import Plan
from tofu.planning.settings import Settings
from tofu.report.console import print_legend, print_notes

MOST_WORK = 1.5
"""If devices together compute more than this many times the work of one device, a note says that they repeat work."""
GIVEN = "the plan given"
SPLIT = "Tofu, everything split"
FREE = "Tofu, replicas free"
HEADINGS = ("plan", "planned\nMB", "compiled\nMB", "overlap", "arguments\nMB", "work", "XLA's\nseconds")
OVERLAP = 3  # this column is empty on CPUs
LEGEND = """
Planned and compiled: millions of bytes that all workers receive in a step, by the plan and in the program that XLA compiled. Arguments:
memory of each worker for them. Work: arithmetic of all workers over that of one device. XLA's seconds: time to compile.
"""
LEGEND_OF_OVERLAP = "Overlap: share of the bytes that is transferred while workers compute."


@dataclass(frozen=True)
class PlanRow:
    """Results for one plan.

    If the plan does not apply to the step, `moved_bytes` is -1 and `note` has the reason. `overlapped_bytes` are
    transferred while devices compute. `work` is 1.2 if all devices together compute 20 % more than one device.
    """

    name: str
    planned_bytes: int | None
    moved_bytes: int
    argument_bytes: int
    work: float
    seconds: float
    note: str = ""
    overlapped_bytes: int = 0

    @property
    def is_peer(self) -> bool:
        """True if the plan was made by hand and is usable.

        A plan is not usable if it does not apply to the step, or if workers repeat much arithmetic.
        """
        return self.planned_bytes is None and self.moved_bytes >= 0 and not self.work > MOST_WORK


class PlanComparison:
    """A comparison of Tofu's plans with plans made by hand (*peers*)."""

    def __init__(
        self, step: Callable[..., Any], source: Source, arguments: Arguments, settings: Settings, devices: Sequence[Any]
    ) -> None:
        self.step, self._source, self._arguments = step, source, arguments
        self._settings, self._devices = settings, devices
        device_sharding = SingleDeviceSharding(devices[0])  # may describe a device of another machine
        native = source.native
        self._leaves, _ = flatten_arrays(arguments.all, native.has_static_numbers)

        def run_flat(*leaves: Any) -> list[Any]:  # lists of arrays, because a class in a tree may not accept shardings
            return flatten_arrays(step(*native.arguments_tree.unflatten(leaves)), native.has_static_numbers)[0]

        self._run_flat = run_flat
        jitted = jax.jit(run_flat, in_shardings=device_sharding, out_shardings=device_sharding)
        compiled = jitted.lower(*self._leaves).compile()
        self._one_device_work = _count_work(compiled)

    def run(self, peers: Mapping[str, Peer] = PEERS) -> Iterator[PlanRow]:
        """Yield results for Tofu's plans, and for plans made by hand (`peers`).

        For each peer, also yield a plan of Tofu that needs at most as much memory.
        """
        if self._settings.plan is not None:
            yield self.attempt(GIVEN, self.plan)
        yield self.split
        yield self.attempt(FREE, partial(self.plan, plan=None, replicate="free"))
        peer_rows = []
        for name, peer in peers.items():
            row = self.attempt(name, partial(self.peer, peer))
            peer_rows.append(row)
            yield row
        yield from self.plan_within(peer_rows)

    @cached_property
    def split(self) -> PlanRow:
        """Results for Tofu's default plan, which splits all large tensors."""
        return self.attempt(SPLIT, partial(self.plan, plan=None, replicate="small"))

    def plan_within(self, rows: Sequence[PlanRow]) -> Iterator[PlanRow]:
        """For each plan made by hand in `rows`, yield a plan of Tofu that needs at most as much memory."""
        for row in rows:
            if row.is_peer and 0 <= self.split.argument_bytes <= row.argument_bytes:
                limited = partial(self.plan, plan=None, replicate="small", memory_limit=row.argument_bytes, cache=False)
                yield self.attempt(f"Tofu within {row.name}", limited)

    def plan(self, name: str, **changed_settings: Any) -> PlanRow:
        """Plan the step with changed settings, compile the step, and return the results."""
        lowered, plan = self.lower_plan(**changed_settings)
        return self._compile(name, lowered, plan.communication_bytes, plan.optimality)

    def lower_plan(self, **changed_settings: Any) -> tuple[Any, Plan]:
        """Plan the step with changed settings. Return the step, prepared for compilation, and the plan."""
        partition = plan_step(self._source, replace(self._settings, **changed_settings), engine=JAX_LIMITING_ARGUMENTS)
        step = PartitionedStep(self.step, partition, partition.training.make_mesh(self._devices))
        return step.lower_leaves(), partition.plan

    def peer(self, peer: Peer, name: str) -> PlanRow:
        """Compile the step with a plan made by hand, and return the results."""
        return self._compile(name, self.lower_peer(peer))

    def lower_peer(self, peer: Peer) -> Any:
        """Prepare the step with a plan made by hand for compilation. `peer` returns the shardings of the arguments."""
        shardings = peer(make_mesh(self._devices), self._arguments)
        sharding_lists = [jax.tree.leaves(argument) for argument in shardings]
        argument_shardings = [sharding for argument in sharding_lists for sharding in argument]
        state_count, result_count = count_state(self._source), self._source.native.results_tree.num_leaves
        result_shardings = [*sharding_lists[0][:state_count], *[None] * (result_count - state_count)]
        jitted = jax.jit(self._run_flat, in_shardings=argument_shardings, out_shardings=result_shardings)
        return jitted.lower(*self._leaves)

    @staticmethod
    def attempt(name: str, make: Callable[[str], PlanRow]) -> PlanRow:
        """Return `make(name)`. After an error, return a row with the error message."""
        try:
            return make(name)
        except (TofuError, ValueError) as error:
            return PlanRow(name, None, -1, -1, 0.0, 0.0, f"does not apply: {on_one_line(error)}")

    def _compile(self, name: str, lowered: Any, planned_bytes: int | None = None, note: str = "") -> PlanRow:
        start = time.perf_counter()
        compiled = lowered.compile()
        seconds = time.perf_counter() - start
        argument_bytes = compiled.memory_analysis().argument_size_in_bytes
        traffic = count_traffic(compiled.as_text(), len(self._devices))
        work = len(self._devices) * _count_work(compiled) / self._one_device_work
        overlapped = round(sum(traffic.overlapped.values()))
        return PlanRow(name, planned_bytes, traffic.total, argument_bytes, work, seconds, note, overlapped)


def _count_work(compiled: Any) -> float:
    analysis = compiled.cost_analysis()
    return max(1.0, float(analysis.get("flops", 1.0))) if analysis is not None else math.nan


def find_devices(workers: int) -> list[Any]:
    """Return `workers` devices. Use CPUs if the default platform has too few."""
    try:
        return list_devices(workers)
    except DeviceError:
        devices = jax.devices("cpu")
        if len(devices) < workers:
            raise
        return list(devices[:workers])


def print_rows(console: Console, title: str, rows: Sequence[PlanRow]) -> None:
    """Print a table with a row for each plan (way to split the step), and notes below it."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    is_shown = [n != OVERLAP or any(row.overlapped_bytes for row in rows) for n in range(len(HEADINGS))]
    for heading in compress(HEADINGS, is_shown):
        table.add_column(
            heading, justify="left" if heading == HEADINGS[0] else "right", vertical="bottom", no_wrap=True
        )
    notes = []
    for row in rows:
        repeats_work = row.work > MOST_WORK and row.planned_bytes is None
        if note := row.note or ("workers compute the same" if repeats_work else ""):
            notes.append(f"{row.name}: {note}")
        if row.moved_bytes < 0:
            table.add_row(row.name, *["-"] * (sum(is_shown) - 1))
            continue
        planned = "-" if row.planned_bytes is None else f"{row.planned_bytes / 1e6:.2f}"
        cells = (
            row.name,
            planned,
            f"{row.moved_bytes / 1e6:.2f}",
            f"{row.overlapped_bytes / row.moved_bytes:.0%}" if row.overlapped_bytes else "-",
            f"{row.argument_bytes / 1e6:.3f}",
            "-" if math.isnan(row.work) else f"{row.work:.2f}",
            f"{row.seconds:.1f}",
        )
        table.add_row(*compress(cells, is_shown))
    console.print(table)
    print_notes(console, notes)
    print_legend(console, f"{LEGEND} {LEGEND_OF_OVERLAP}" if is_shown[OVERLAP] else LEGEND)
