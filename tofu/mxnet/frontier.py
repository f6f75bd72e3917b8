"""Frontier of communication and memory per worker, between splitting all but small tensors and data parallelism.

    tofu.frontier(symbol, 8, data=(32, 3, 224, 224))        python -m tofu frontier model-symbol.json --shape ...
    --workers 8

Each point is a plan; `tofu.partition(symbol, plan=point)` applies it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tofu.errors import InfeasibleError, PlanError
from tofu.mxnet.planning import read_trained
from tofu.mxnet.runtime.symbol.arguments import read_settings, read_shapes
from tofu.pipeline import Observer, Task, build_partition
from tofu.plan import Plan, align, format_bytes, format_seconds
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
    """Plans of one model for one number of workers.

    Attributes
    ----------
    points
        Plans by memory, smallest first; none needs less memory and less communication than another.
    split_all
        The plan that splits every tensor that can be split, as without a memory limit; tensors below 64 KiB may be
        replicated.
    data_parallel
        The plan of data parallelism, or None if it does not apply.
    """

    points: tuple[Plan, ...]
    split_all: Plan
    data_parallel: Plan | None

    @property
    def smallest_bytes(self) -> int:
        """Least memory of a worker, in bytes."""
        return most_bytes(self.points[0])

    def best_within(self, limit_bytes: float) -> Plan:
        """Return the plan with the least communication that needs no more than this on any worker.

        Raises InfeasibleError below the smallest.
        """
        fitting = [plan for plan in self.points if most_bytes(plan) <= limit_bytes]
        if not fitting:
            raise InfeasibleError(
                f"No plan of the frontier fits into {format_limit(int(limit_bytes))} per worker; the smallest needs "
                f"{format_bytes(self.smallest_bytes)}."
            )
        return fitting[-1]

    def __str__(self) -> str:
        """Return an aligned table, smallest memory first; each row names what it replicates and keeps beyond the row before."""
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
        """Write a picture of the frontier; the suffix selects the format (.png, .svg).

        Raises TofuError without matplotlib, or for another suffix.
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
    """Return the bytes of the worker that needs most."""
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
    """Return the frontier of memory and communication of a model over `ngpus` workers, from shapes alone.

    Takes the arguments of `tofu.partition`. Every argument of the model but its inputs is trained. It takes about ten
    searches, and as many calls of MXNet's memory planner.

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
    """Return the frontier of a plain symbol, over the first arrangement of its rounds.

    Raises PlanError for one worker, and for an algorithm without a search.
    """
    if settings.workers == 1:
        raise PlanError("ngpus is 1; a frontier needs 2 workers or more.")
    if settings.algorithm not in SEARCHES:
        raise PlanError(
            f"algorithm={settings.algorithm!r} makes one plan, but a frontier is searched: by {' or '.join(map(repr, SEARCHES))}."
        )
    task = read_trained(symbol, shapes, settings)
    first, *_ = task.settings.arrangements
    (tradeoff,) = make_tradeoffs([task.problem.arrange(first)], task.settings, None, task.measure)
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
