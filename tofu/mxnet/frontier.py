"""`tofu.frontier`: plans of one model, from little memory per worker to little communication.

    tofu.frontier(symbol, 8, data=(32, 3, 224, 224))
    python -m tofu frontier model-symbol.json --workers 8 --shape data:32,3,224,224

Each plan has the least communication found for its memory. `tofu.partition(symbol, plan=plan)` applies a plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tofu.engines import JAX, MXNET, find_engine
from tofu.errors import ArgumentTypeError, InfeasibleError, PlanError, UnsupportedError
from tofu.formatting import align, format_bytes, format_seconds, list_some
from tofu.mxnet.planning import read_trained
from tofu.mxnet.runtime.symbol.arguments import read_settings, read_shapes
from tofu.pipeline import Observer, Task, build_partition
from tofu.plan import Plan
from tofu.planning.memory_limit import Point, measure_plan
from tofu.planning.selection import Selection, make_tradeoffs
from tofu.planning.settings import Settings
from tofu.report.picture import choose_unit, new_figure
from tofu.search import Problem
from tofu.search.algorithms import ALGORITHMS, DEFAULT_ALGORITHM, SEARCHES
from tofu.search.solve import DEFAULT_SEARCH_SECONDS
from tofu.sizes import format_limit
from tofu.validation import show

DATA_PARALLEL = "data-parallel"
MOST_NAMES = 3  # names in a row of the table
OPTIMALITY = "a point of the frontier; nothing is proved"


@dataclass(frozen=True)
class Frontier:
    """Plans of one model for a number of workers, from little memory to little communication.

    Attributes
    ----------
    points
        The plans. From each plan to the next, memory per worker grows and communication falls.
    split_all
        The plan of `tofu.partition` without a memory limit. It splits all tensors above 64 KiB if possible.
    data_parallel
        The plan of data parallelism, or None if the model cannot be split by batch.
    """

    points: tuple[Plan, ...]
    split_all: Plan
    data_parallel: Plan | None

    @property
    def smallest_bytes(self) -> int:
        """Bytes per worker of the plan that needs least memory."""
        return most_bytes(self.points[0])

    def best_within(self, limit_bytes: float) -> Plan:
        """Return the plan with the least communication among plans that need at most `limit_bytes` per worker.

        Raise InfeasibleError if every plan needs more.
        """
        fitting = [plan for plan in self.points if most_bytes(plan) <= limit_bytes]
        if not fitting:
            raise InfeasibleError(
                f"No plan of the frontier fits into {format_limit(int(limit_bytes))} per worker; the smallest needs "
                f"{format_bytes(self.smallest_bytes)}."
            )
        return fitting[-1]

    def __str__(self) -> str:
        """Return a table with a row for each plan."""
        rows = [
            ("", "memory per worker", "of the smallest", "moved per step", "of the first", "replicated", "kept", "new")
        ]
        first = self.points[0]
        for number, (last_plan, plan) in enumerate(zip((first, *self.points), self.points, strict=False), 1):
            memory, communication = most_bytes(plan), plan.communication_bytes
            rows.append(
                (
                    str(number),
                    format_bytes(memory, 3),
                    f"{memory / self.smallest_bytes:.3f}",
                    format_bytes(communication, 3),
                    f"{communication / max(first.communication_bytes, 1):.3f}",
                    str(len(_list_replicated(plan))),
                    str(len(plan.kept)),
                    _describe_difference(last_plan, plan),
                )
            )
        lines = [
            *align(rows),
            "",
            "Of the smallest, of the first: relative to row 1. Replicated: tensors stored on several workers, whole or in part.",
            "Kept: tensors whose fetched regions stay in memory. New: tensors that the row above neither replicates nor keeps.",
            "",
        ]
        lines += [f"{name}: {describe_point(plan)}" for name, plan in self._list_reference_plans()]
        return "\n".join(lines)

    def draw(self, path: str | Path) -> None:
        """Draw the plans in a picture file. The suffix of `path` selects the format, for example .png or .svg.

        Raise TofuError if matplotlib is not installed or cannot write the format.
        """
        figure = new_figure(path, 7, 4.5)
        axes = figure.add_subplot()
        reference_plans = self._list_reference_plans()
        plans = [*self.points, *(plan for _, plan in reference_plans)]
        memory_unit, memory_unit_bytes = choose_unit(map(most_bytes, plans))
        communication_unit, communication_unit_bytes = choose_unit(plan.communication_bytes for plan in plans)

        def find_point(plan: Plan) -> tuple[float, float]:
            return most_bytes(plan) / memory_unit_bytes, plan.communication_bytes / communication_unit_bytes

        axes.step(*zip(*map(find_point, self.points), strict=True), "o-", where="post", label="frontier")
        for name, plan in reference_plans:
            axes.plot(*find_point(plan), "x", markersize=10, label=name)
        axes.set_xlabel(f"memory per worker, {memory_unit}")
        axes.set_ylabel(f"moved per training step, {communication_unit}")
        axes.set_ylim(bottom=0)
        figure.legend(loc="outside upper center", ncols=3)
        figure.savefig(path)

    def _list_reference_plans(self) -> list[tuple[str, Plan]]:
        plans = ("all but small tensors split", self.split_all), ("data parallelism", self.data_parallel)
        return [(name, plan) for name, plan in plans if plan is not None]


def most_bytes(plan: Plan) -> int:
    """Return the largest number of bytes that a worker needs."""
    return max(plan.worker_bytes)


def describe_point(plan: Plan) -> str:
    """Return a plan's memory and communication as text."""
    seconds = plan.communication_seconds
    time = "" if seconds is None else f", {format_seconds(seconds)} on this interconnect"
    return f"{format_bytes(most_bytes(plan))} per worker, {format_bytes(plan.communication_bytes)} moved per step{time}"


def _list_replicated(plan: Plan) -> list[str]:
    return [name for name, layout in plan.tensors.items() if None in layout]


def _describe_difference(last_plan: Plan, plan: Plan) -> str:
    last_replicated = {*_list_replicated(last_plan)}
    differences = (
        ("", [name for name in _list_replicated(plan) if name not in last_replicated]),
        ("kept ", [name for name in plan.kept if name not in last_plan.kept]),
    )
    return "; ".join(title + list_some(names, MOST_NAMES) for title, names in differences if names)


def frontier(
    symbol: Any,
    ngpus: int | None = None,
    *arguments: Any,
    hints: Mapping[str, Any] | None = None,
    algorithm: str = DEFAULT_ALGORITHM,
    search_seconds: float = DEFAULT_SEARCH_SECONDS,
    undescribed: str = "error",
    topology: Any = None,
    **shapes: Sequence[int],
) -> Frontier:
    """Find a series of plans, from little memory per worker to little communication.

    The first plans split every tensor. The last plans replicate tensors. The search takes about ten times as long as
    for a single plan.

    Parameters
    ----------
    symbol, ngpus, hints, algorithm, search_seconds, undescribed, topology
        As in `tofu.partition`.
    *arguments
        Not accepted. A step for JAX, with its example arguments, raises UnsupportedError.
    **shapes
        The shape of each input, by name.

    Returns
    -------
    Frontier
        The plans. They print as a table of memory and communication.

    Raises
    ------
    TofuError
        The model cannot be partitioned, or shapes or options are wrong.

    Examples
    --------
    >>> import mxnet as mx, tofu
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
    >>> len(tofu.frontier(net, 2, data=(4, 6)).points) >= 1
    True
    """
    _check_model(symbol, ngpus, arguments)
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


def _check_model(model: Any, ngpus: Any, arguments: Sequence[Any]) -> None:
    if find_engine(model) is JAX:
        raise UnsupportedError(
            f"tofu.frontier is for {MXNET.model}, and {show(model)} is {JAX.model}. For a step, memory_limit= of tofu.jax.partition finds "
            "the plan that fits, and `python -m tofu compare` shows the plans that need no more memory than data parallelism and FSDP."
        )
    if ngpus is None or arguments:
        received = f"with {show(arguments[0])}" if arguments else "without the number of devices"
        raise ArgumentTypeError(
            f"tofu.frontier takes a symbol and the number of devices, and was called {received}. Pass only the shapes by name: "
            "tofu.frontier(symbol, 8, data=(64, 784))."
        )


def trace_frontier(symbol: Any, shapes: Mapping[str, tuple[int, ...]], settings: Settings) -> Frontier:
    """Find plans for a model, from little memory per worker to little communication.

    Raise PlanError if there is only one worker, or if `settings.algorithm` does not search.
    """
    if settings.workers == 1:
        raise PlanError("ngpus is 1; a frontier needs 2 workers or more.")
    if settings.algorithm not in SEARCHES:
        raise PlanError(
            f"algorithm={settings.algorithm!r} makes one plan, but a frontier is searched: by {' or '.join(map(repr, SEARCHES))}."
        )
    task = read_trained(symbol, shapes, settings)
    first_arrangement, *_ = task.settings.arrangements
    (tradeoff,) = make_tradeoffs([task.problem.arrange(first_arrangement)], task.settings, task.measure)
    split_all = tradeoff.split_all()
    tradeoff.try_more_prices()
    data_parallel = _plan_data_parallel(task, tradeoff.problem)
    candidates = [*tradeoff.points, *([] if data_parallel is None else [data_parallel])]
    points: list[Point] = []
    for point in sorted(candidates, key=lambda point: (point.most_bytes, point.cost)):
        if not points or point.cost < points[-1].cost:
            points.append(point)

    def make_plan(point: Point) -> Plan:
        algorithm = DATA_PARALLEL if point is data_parallel else task.settings.algorithm
        return build_partition(task, Selection(point.choices, algorithm, OPTIMALITY), Observer()).plan

    return Frontier(
        points=tuple(map(make_plan, points)),
        split_all=make_plan(split_all),
        data_parallel=None if data_parallel is None else make_plan(data_parallel),
    )


def _plan_data_parallel(task: Task, problem: Problem) -> Point | None:
    try:
        choices = ALGORITHMS[DATA_PARALLEL].solve(problem).choices
    except InfeasibleError:
        return None
    return measure_plan(choices, task.measure)
