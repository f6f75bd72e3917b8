"""`tofu.frontier`: plans of one model that trade memory per worker for communication.

    tofu.frontier(symbol, 8, data=(32, 3, 224, 224))
    python -m tofu frontier model-symbol.json --workers 8 --shape data:32,3,224,224

Each plan of the frontier is the cheapest one found for its memory. `tofu.partition(symbol, plan=plan)` applies one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tofu.errors import InfeasibleError, PlanError
from tofu.formatting import align, format_bytes, format_seconds
from tofu.mxnet.planning import read_trained
from tofu.mxnet.runtime.symbol.arguments import read_settings, read_shapes
from tofu.pipeline import Observer, Task, build_partition
from tofu.plan import Plan
from tofu.planning.memory_limit import Point, price_plan
from tofu.planning.selection import Selection, make_tradeoffs
from tofu.planning.settings import Settings
from tofu.report.picture import choose_unit, new_figure
from tofu.search import Problem
from tofu.search.algorithms import ALGORITHMS, DEFAULT_ALGORITHM, SEARCHES
from tofu.search.solve import DEFAULT_SEARCH_SECONDS
from tofu.sizes import format_limit

DATA_PARALLEL = "data-parallel"
MOST_NAMES = 3  # in a row of the table
OPTIMALITY = "a point of the frontier; nothing is proved"


@dataclass(frozen=True)
class Frontier:
    """Trade-off between memory and communication: plans of one model for one number of workers.

    Attributes
    ----------
    points
        The plans of the frontier, sorted by memory per worker, the smallest first. Each plan needs more memory than
        the plan before it, and its communication costs less.
    split_all
        The plan of `tofu.partition` without a memory limit. It splits every tensor that can be split, except that it
        may replicate tensors below 64 KiB.
    data_parallel
        The plan of data parallelism, or None if the model does not allow it.
    """

    points: tuple[Plan, ...]
    split_all: Plan
    data_parallel: Plan | None

    @property
    def smallest_bytes(self) -> int:
        """Memory per worker of the plan that needs least, in bytes."""
        return most_bytes(self.points[0])

    def best_within(self, limit_bytes: float) -> Plan:
        """Return the plan with the least communication that needs at most `limit_bytes` on every worker.

        Raises InfeasibleError if the limit is below `smallest_bytes`.
        """
        fitting = [plan for plan in self.points if most_bytes(plan) <= limit_bytes]
        if not fitting:
            raise InfeasibleError(
                f"No plan of the frontier fits into {format_limit(int(limit_bytes))} per worker; the smallest needs "
                f"{format_bytes(self.smallest_bytes)}."
            )
        return fitting[-1]

    def __str__(self) -> str:
        """Return a table with a row for each plan. A row names the tensors that it replicates or keeps and the row above does not."""
        rows = [
            ("", "memory per worker", "of the smallest", "moved per step", "of the first", "replicated", "kept", "new")
        ]
        first = self.points[0]
        for number, (before, plan) in enumerate(zip((first, *self.points), self.points, strict=False), 1):
            memory, moved = most_bytes(plan), plan.communication_bytes
            rows.append(
                (
                    str(number),
                    format_bytes(memory, 3),
                    f"{memory / self.smallest_bytes:.3f}",
                    format_bytes(moved, 3),
                    f"{moved / max(first.communication_bytes, 1):.3f}",
                    str(len(_replicated(plan))),
                    str(len(plan.kept)),
                    _describe_difference(before, plan),
                )
            )
        lines = [
            *align(rows),
            "",
            "Of the smallest, of the first: relative to row 1. Replicated: tensors stored on several workers, whole or in part.",
            "Kept: tensors whose fetched regions stay in memory. New: tensors that the row above neither replicates nor keeps.",
            "",
        ]
        for name, end in self._ends():
            if end is not None:
                lines.append(f"{name}: {describe_point(end)}")
        return "\n".join(lines)

    def draw(self, path: str | Path) -> None:
        """Write a picture of the frontier to a file; the suffix of `path` selects the format (.png, .svg).

        Raises TofuError if matplotlib is not installed, or for another suffix.
        """
        figure = new_figure(path, 7, 4.5)
        axes = figure.add_subplot()
        ends = {name: end for name, end in self._ends() if end is not None}
        plans = [*self.points, *ends.values()]
        unit, unit_bytes = choose_unit(map(most_bytes, plans))
        moved_unit, moved_bytes = choose_unit(plan.communication_bytes for plan in plans)

        def place(plan: Plan) -> tuple[float, float]:
            return most_bytes(plan) / unit_bytes, plan.communication_bytes / moved_bytes

        axes.step(*zip(*map(place, self.points), strict=True), "o-", where="post", label="frontier")
        for name, end in ends.items():
            axes.plot(*place(end), "x", markersize=10, label=name)
        axes.set_xlabel(f"memory per worker, {unit}")
        axes.set_ylabel(f"moved per training step, {moved_unit}")
        axes.set_ylim(bottom=0)
        figure.legend(loc="outside upper center", ncols=3)
        figure.savefig(path)

    def _ends(self) -> tuple[tuple[str, Plan | None], ...]:
        return ("all but small tensors split", self.split_all), ("data parallelism", self.data_parallel)


def most_bytes(plan: Plan) -> int:
    """Return the memory of the worker that needs most, in bytes."""
    return max(plan.worker_bytes)


def describe_point(plan: Plan) -> str:
    """Return a plan's memory and communication as a text."""
    seconds = plan.communication_seconds
    time = "" if seconds is None else f", {format_seconds(seconds)} on this interconnect"
    return f"{format_bytes(most_bytes(plan))} per worker, {format_bytes(plan.communication_bytes)} moved per step{time}"


def _replicated(plan: Plan) -> list[str]:
    return [name for name, steps in plan.tensors.items() if None in steps]


def _describe_difference(before: Plan, plan: Plan) -> str:
    known = {*_replicated(before)}
    parts = (
        ("", [name for name in _replicated(plan) if name not in known]),
        ("kept ", [name for name in plan.kept if name not in before.kept]),
    )
    return "; ".join(
        word + ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if names[MOST_NAMES:] else "")
        for word, names in parts
        if names
    )


def frontier(
    symbol: Any,
    ngpus: int,
    *,
    hints: Mapping[str, Any] | None = None,
    algorithm: str = DEFAULT_ALGORITHM,
    search_seconds: float = DEFAULT_SEARCH_SECONDS,
    undescribed: str = "error",
    topology: Any = None,
    **shapes: Sequence[int],
) -> Frontier:
    """Find plans that trade memory per worker for communication, from splitting every tensor to data parallelism.

    It takes the arguments of `tofu.partition`, and trains all arguments of the model except its inputs. No array is
    allocated. The search takes about ten times as long as for one plan, and calls MXNet's memory planner each time.

    Examples
    --------
    >>> import mxnet as mx, tofu
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
    >>> len(tofu.frontier(net, 2, data=(4, 6)).points) >= 1
    True
    """
    settings = read_settings(
        ngpus,
        hints=hints,
        undescribed=undescribed,
        algorithm=algorithm,
        search_seconds=search_seconds,
        topology=topology,
        cache=False,
    )
    return trace_frontier(symbol, read_shapes(symbol, shapes, ("ngpus", *(frontier.__kwdefaults__ or ()))), settings)


def trace_frontier(symbol: Any, shapes: Mapping[str, tuple[int, ...]], settings: Settings) -> Frontier:
    """Return the frontier of a symbol that is not partitioned.

    Workers are split in rounds, one for each prime factor of their number. If several orders of the rounds are
    possible, only the first is searched. Raises PlanError for one worker, and for an algorithm that makes a plan
    without a search.
    """
    if settings.workers == 1:
        raise PlanError("ngpus is 1; a frontier needs 2 workers or more.")
    if settings.algorithm not in SEARCHES:
        raise PlanError(
            f"algorithm={settings.algorithm!r} makes one plan, but a frontier is searched: by {' or '.join(map(repr, SEARCHES))}."
        )
    task = read_trained(symbol, shapes, settings)
    first_arrangement, *_ = task.settings.arrangements
    (tradeoff,) = make_tradeoffs([task.problem.arrange(first_arrangement)], task.settings, None, task.measure)
    split_all = tradeoff.split_all()
    tradeoff.sweep()
    data_parallel = _plan_data_parallel(task, tradeoff.problem)
    candidates = [*tradeoff.points, *([] if data_parallel is None else [data_parallel])]
    best: list[Point] = []
    for point in sorted(candidates, key=lambda point: (point.most_bytes, point.cost)):
        if not best or point.cost < best[-1].cost:
            best.append(point)

    def finish(point: Point) -> Plan:
        algorithm = DATA_PARALLEL if point is data_parallel else task.settings.algorithm
        return build_partition(task, Selection(point.choices, algorithm, OPTIMALITY), Observer()).plan

    return Frontier(
        tuple(map(finish, best)), finish(split_all), None if data_parallel is None else finish(data_parallel)
    )


def _plan_data_parallel(task: Task, problem: Problem) -> Point | None:
    try:
        choices = ALGORITHMS[DATA_PARALLEL].solve(problem).choices
    except InfeasibleError:
        return None
    return price_plan(choices, task.measure)
