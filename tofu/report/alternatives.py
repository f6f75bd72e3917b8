"""Find the best plans in which a layer is split along another axis, for `--why` and the HTML page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from tofu.errors import PlanError, TofuError
from tofu.formatting import format_bytes, list_some
from tofu.graph import Operator, find_operator, find_similar_operators
from tofu.pipeline import Partition
from tofu.planning.progress import track_progress
from tofu.report.layers import LayerRow, explain_axis
from tofu.search import Problem
from tofu.search.algorithms import ALGORITHMS
from tofu.search.cost import evaluate, price
from tofu.search.solve import Effort
from tofu.validation import show_with_type

EFFORT_SECONDS = 0.5  # of each exact search; for large graphs, the recursive search before it takes longer
TOTAL_SECONDS = 10.0  # of processor time for the alternatives of all layers on a page


@dataclass(frozen=True)
class Alternative:
    """The best plan found that splits one operator along one axis only.

    Attributes
    ----------
    axis, meaning
        The axis, and its meaning: "summed over", or a dimension of the result, such as "dimension 1".
    communication_bytes
        Bytes that the plan transfers in a training step; None if no such plan exists.
    change
        The additional cost, relative to the present plan: 0.05 is 5 % more. The cost is bytes, or seconds if the
        interconnect has several levels.
    remark
        How close to optimal the plan is, or why no such plan exists.
    """

    axis: str
    meaning: str
    communication_bytes: int | None
    change: float | None
    remark: str

    @property
    def moved_text(self) -> str:
        """`communication_bytes` with a unit, or "no plan"."""
        return "no plan" if self.communication_bytes is None else format_bytes(self.communication_bytes)

    @property
    def change_text(self) -> str:
        """`change` in percent, or ""."""
        return "" if self.change is None else format_change(self.change)


def format_change(change: float) -> str:
    """Write a relative change as text: +12 %, +0.3 %, 0 %."""
    return "0 %" if change == 0 else f"{100 * change:+.2g} %" if abs(change) < 0.1 else f"{100 * change:+.0f} %"


def find_layer(layer: str, problem: Problem) -> Operator:
    """Return the operator `layer`, or the main operator of the layer. Raise PlanError if the model has neither."""
    if not isinstance(layer, str):
        raise PlanError(f"Expected the name of an operator, not {show_with_type(layer)}.")
    graph = problem.graph
    operator = find_operator(graph, layer, problem.count_points)
    if operator is not None:
        return operator
    if layer in graph.tensor_index:
        tensor = graph.tensor_index[layer]
        readers = [operator.name for operator in graph.operators if tensor in operator.inputs]
        raise PlanError(
            f"{layer!r} is a tensor, not an operator. Its readers are {list_some(readers)}."
            if readers
            else f"{layer!r} is a tensor that no operator reads, not an operator."
        )
    if similar_names := find_similar_operators(graph, layer, problem.count_points):
        raise PlanError(f"The model has no operator {layer!r}; did you mean {', '.join(similar_names)}?")
    raise PlanError(f"The model has no operator {layer!r}. Its operators are {list_some([*graph.operator_index])}.")


def find_alternatives(
    partition: Partition, layer: str, seconds: float = EFFORT_SECONDS, end_seconds: float = inf
) -> list[Alternative]:
    """For each axis of an operator, return the best plan that splits the operator along this axis only.

    `layer` is the name of the operator, or of a layer, which stands for its main operator.

    The cheapest plan comes first. Hints and the memory limit are ignored, and `seconds` limits each exact search. No
    search starts after `time.process_time()` has reached `end_seconds`, so axes may be missing. Raises PlanError if the
    model has no such operator.
    """
    problem, exact = partition.searched.problem, ALGORITHMS["exact"]
    operator = find_layer(layer, problem)
    access = problem.accesses[problem.graph.operator_index[operator.name]]
    present_cost = price(partition.searched)
    alternatives = []
    for number, axis in enumerate(access.axes):
        if time.process_time() >= end_seconds:
            break
        meaning = explain_axis(access, number)
        try:
            solution = exact.solve(problem, {operator.name: axis}, Effort(seconds))
        except TofuError as error:
            reason = str(error).splitlines()[-1].removeprefix("  - ").removeprefix(f"{operator.full_name}: ")
            alternatives.append(Alternative(axis, meaning, None, None, reason))
            continue
        cost, moved_bytes = price(solution.choices), evaluate(solution.choices).total_bytes
        change = (cost - present_cost) / present_cost if present_cost else 0.0
        alternatives.append(
            Alternative(axis, meaning, moved_bytes, change, exact.describe_optimality(cost, solution.proofs))
        )
    return sorted(alternatives, key=lambda plan: (plan.change is None, plan.change or 0.0, plan.axis))


def find_some_alternatives(
    partition: Partition, layers: Sequence[LayerRow], seconds: float = TOTAL_SECONDS
) -> tuple[dict[str, list[Alternative]], int]:
    """Return the alternatives of each layer, by its name, and the number of axes that were not searched.

    The layers that transfer most come first. No search starts after `seconds` of processor time.
    """
    problem, end_seconds = partition.searched.problem, time.process_time() + seconds
    alternatives, left_out = {}, 0
    by_transfers = sorted(layers, key=lambda layer: -layer.moved_bytes)
    for layer in track_progress(by_transfers, "searching alternatives"):
        found = alternatives[layer.name] = find_alternatives(partition, layer.operator, end_seconds=end_seconds)
        left_out += len(problem.accesses[problem.graph.operator_index[layer.operator]].axes) - len(found)
    return alternatives, left_out


def choose_layers(layers: Sequence[LayerRow], most: int) -> list[LayerRow]:
    """Return up to `most` layers that transfer the most bytes, in the order of the model.

    Equal layers are listed once.
    """
    layers_by_kind: dict[tuple[object, ...], LayerRow] = {}
    for layer in sorted(layers, key=lambda layer: -layer.moved_bytes):
        if layer.moved_bytes:
            kind = layer.result.shape, layer.forward, tuple(parameter.shape for parameter in layer.parameters)
            layers_by_kind.setdefault(kind, layer)
    chosen = {layer.name for layer in list(layers_by_kind.values())[:most]}
    return [layer for layer in layers if layer.name in chosen]
