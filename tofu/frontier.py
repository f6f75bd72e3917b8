"""Bytes moved against memory per worker: all that a model offers between splitting everything and data parallelism.

    tofu.frontier(symbol, 8, data=(32, 3, 224, 224))        python -m tofu frontier model-symbol.json --shape ... --workers 8

Each point is a plan; `tofu.partition(symbol, plan=point)` applies it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tofu.errors import InfeasibleError, TofuError
from tofu.graph.mxnet import check_names, read_training
from tofu.graph.refusals import refuse_unpartitionable
from tofu.memory_limit import Point, Tradeoff
from tofu.partition import Task, read_task
from tofu.plan import Plan, format_bytes
from tofu.planning import Found, Settings, make_tradeoffs
from tofu.search.algorithms import DEFAULT_ALGORITHM, DEFAULT_SEARCH_SECONDS
from tofu.search.baselines import find_baseline

DATA_PARALLEL = "data-parallel"
OPTIMALITY = "a point of the frontier; nothing is proved"


@dataclass(frozen=True)
class Frontier:
    """Plans of one model for one number of workers.

    Attributes
    ----------
    points
        Plans of which none needs less memory and moves fewer bytes than another, by memory: the first is the smallest.
    split_all
        The plan that splits whatever can be split, as without a memory limit.
    data_parallel
        The plan of data parallelism, or None where it does not apply.
    """

    points: tuple[Plan, ...]
    split_all: Plan
    data_parallel: Plan | None

    @property
    def smallest_bytes(self) -> int:
        """The least memory of a worker."""
        return most_bytes(self.points[0])

    def best_within(self, limit_bytes: float) -> Plan:
        """The plan of the fewest bytes moved that needs no more than this on any worker. Raises InfeasibleError below the smallest."""
        fitting = [plan for plan in self.points if most_bytes(plan) <= limit_bytes]
        if not fitting:
            raise InfeasibleError(
                f"No plan of the frontier fits into {format_bytes(limit_bytes)} per worker; the smallest needs "
                f"{format_bytes(self.smallest_bytes)}."
            )
        return fitting[-1]

    def __str__(self) -> str:
        """An aligned table, the smallest memory first."""
        lines = ["memory per worker  of the smallest  moved per step  of the first"]
        for plan in self.points:
            memory, moved = most_bytes(plan), plan.communication_bytes
            lines.append(
                f"{format_bytes(memory):>17}  {memory / self.smallest_bytes:15.3f}  {format_bytes(moved):>14}  "
                f"{moved / max(self.points[0].communication_bytes, 1):12.3f}"
            )
        for name, end in (("everything split", self.split_all), ("data parallelism", self.data_parallel)):
            if end is not None:
                lines.append(
                    f"{name}: {format_bytes(most_bytes(end))} per worker, {format_bytes(end.communication_bytes)} moved per step"
                )
        return "\n".join(lines)

    def draw(self, path: str | Path) -> None:
        """Write a picture of the frontier; the ending says which kind (.png, .svg). Needs matplotlib."""
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise TofuError("A picture of the frontier needs matplotlib: pip install matplotlib.") from error
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.add_subplot()
        memory = [most_bytes(plan) / 2**30 for plan in self.points]
        axes.step(memory, [p.communication_bytes / 2**30 for p in self.points], "o-", where="post", label="frontier")
        for name, end in (("everything split", self.split_all), ("data parallelism", self.data_parallel)):
            if end is not None:
                axes.plot(most_bytes(end) / 2**30, end.communication_bytes / 2**30, "x", markersize=10, label=name)
        axes.set_xlabel("memory per worker, GiB")
        axes.set_ylabel("moved per training step, GiB")
        axes.set_ylim(bottom=0)
        axes.legend()
        figure.savefig(path)


def most_bytes(plan: Plan) -> int:
    """What the worker that needs most needs."""
    return max(plan.worker_bytes)


def frontier(
    symbol: Any,
    ngpus: int,
    *,
    hints: Mapping[str, Any] | None = None,
    algorithm: str = DEFAULT_ALGORITHM,
    search_seconds: float = DEFAULT_SEARCH_SECONDS,
    undescribed: str = "error",
    **shapes: Sequence[int],
) -> Frontier:
    """The trade of memory against communication of a model over `ngpus` workers, from shapes alone.

    Arguments are those of `tofu.partition`; every argument of the model but its inputs is trained. Takes some ten searches, and as
    many questions to MXNet's memory planner.

    Examples
    --------
    >>> import mxnet as mx, tofu
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
    >>> len(tofu.frontier(net, 2, data=(4, 6)).points) >= 1
    True
    """
    settings = Settings(
        ngpus,
        hints,
        algorithm=algorithm,
        search_seconds=search_seconds,
        undescribed=undescribed,
        cache=False,
    )
    return trace_frontier(read_trained(symbol, {name: tuple(shape) for name, shape in shapes.items()}, settings))


def read_trained(symbol: Any, shapes: Mapping[str, tuple[int, ...]], settings: Settings) -> Task:
    """The task of a plain symbol, of which every argument but the inputs and labels is learned."""
    refuse_unpartitionable(symbol)
    check_names(symbol, shapes)
    inputs, learned = read_training(symbol, shapes)
    return read_task(symbol, inputs, settings, differentiated=learned, updated=learned)


def trace_frontier(task: Task) -> Frontier:
    """The frontier of a task, over the first arrangement of its steps."""
    first, *_ = task.settings.arrangements
    (tradeoff,) = make_tradeoffs([task.problem.arrange(first)], task.settings, None, task.measure)
    split_all = tradeoff.split_all()
    tradeoff.sweep()
    data_parallel = _plan_data_parallel(task, tradeoff)
    candidates = [*tradeoff.points, *([] if data_parallel is None else [data_parallel])]
    best: list[Point] = []
    for point in sorted(candidates, key=lambda point: (point.most_bytes, point.cost)):
        if not best or point.cost < best[-1].cost:
            best.append(point)

    def finish(point: Point) -> Plan:
        algorithm = DATA_PARALLEL if point is data_parallel else task.settings.algorithm
        return task.finish(Found(point.problem, point.choices, algorithm, OPTIMALITY)).plan

    return Frontier(
        tuple(map(finish, best)), finish(split_all), None if data_parallel is None else finish(data_parallel)
    )


def _plan_data_parallel(task: Task, tradeoff: Tradeoff) -> Point | None:
    problem = tradeoff.problem
    try:
        choices, _ = find_baseline(problem, DATA_PARALLEL)
    except InfeasibleError:
        return None
    return Point(problem, choices, problem.price(choices), task.measure(problem, choices))
