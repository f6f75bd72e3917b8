"""The search problem of one graph: the native graph with its access rows, and the choices that solve it.

Operators keep their positions in the semantic graph; a weight update follows for each updated parameter, as an element-wise
operator that takes its weight's layout and reads the gradient there (design: the update belongs to the optimised graph).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tofu import _core
from tofu.analysis import OperatorAccess, Row
from tofu.errors import InfeasibleError, PlanError
from tofu.graph import Graph, Phase
from tofu.plan import REPLICATION_LIMIT_BYTES, AxisSteps, Plan, Steps
from tofu.search.choices import REPLICATED, ChoiceArray, Choices
from tofu.search.hints import resolve_hints, resolve_plan

Progress = Callable[[int, int], None]


class Problem:
    """The native form of one graph for one number of workers.

    Parameters
    ----------
    graph, accesses
        The semantic graph and the access of each of its operators.
    factors
        Of the number of workers, one for each step.
    replication_limit_bytes
        Tensors below this size may be replicated.
    """

    def __init__(
        self,
        graph: Graph,
        accesses: Sequence[OperatorAccess],
        factors: Sequence[int],
        replication_limit_bytes: int = REPLICATION_LIMIT_BYTES,
    ) -> None:
        self.graph = graph
        self.accesses = tuple(accesses)
        self.factors = tuple(factors)
        self.native = _core.Graph()
        self.live = find_live_operators(graph, self.accesses)
        for tensor in graph.tensors:
            tiny = tensor.size_bytes < replication_limit_bytes
            self.native.add_tensor(
                list(tensor.shape), tensor.item_bytes, tiny, _label(tensor.kind, tensor.shape, tensor.dtype)
            )
        for position in range(len(graph.operators)):
            self._add_operator(position)
        for parameter in sorted(graph.updated):
            self._add_update(parameter, graph.gradients[parameter])
        untrained = (gradient for variable, gradient in graph.gradients.items() if variable not in graph.updated)
        for position in dict.fromkeys((*graph.outputs, *untrained)):
            self.native.mark_output(position)
        elementwise = [position for position, access in enumerate(self.accesses) if access.elementwise]
        _core.coarsen(self.native, elementwise)

    def _add_operator(self, position: int) -> None:
        operator, access = self.graph.operators[position], self.accesses[position]
        is_live = position in self.live
        shapes = [self.graph.tensors[t].shape for t in (*operator.inputs, *operator.outputs)]
        self.native.add_operator(
            list(access.extents),
            [
                (
                    t,
                    _rows(read.rows),
                    list(read.addend_axes),
                    read.fill,
                    slot in operator.mutates,
                    read.is_read and is_live,
                )
                for slot, (t, read) in enumerate(zip(operator.inputs, access.inputs, strict=True))
            ],
            [
                (t, _rows(written.rows), [int(c) for c in written.combine])
                for t, written in zip(operator.outputs, access.outputs, strict=True)
            ],
            phase=int(operator.phase),
            group=position,
            label=_label(operator.op, sorted(operator.attributes.items()), shapes),
            same_choice_as=operator.forward if operator.stateful and operator.forward is not None else -1,
        )

    def _add_update(self, parameter: int, gradient: int) -> None:
        shape = self.graph.tensors[parameter].shape
        rows = [([(d, 1)], 0, 1) for d in range(len(shape))]
        self.native.add_operator(
            list(shape),
            [(gradient, rows, [], 0.0)],
            [],
            phase=int(Phase.UPDATE),
            group=len(self.graph.operators) + parameter,
            label=_label("update", shape),
            follows_tensor=parameter,
        )

    def search(self, hints: Mapping[str, Any] | None = None, progress: Progress | None = None) -> tuple[Choices, Any]:
        """The recursive search of section 5.2. Returns the choices and the native result with its statistics.

        Raises PlanError for hints that cannot be honoured and InfeasibleError where a step finds nothing to split.
        """
        operators, tensors = self.fix_hints(hints or {})
        try:
            result = _core.search_recursive(self.native, list(self.factors), operators, tensors, progress)
        except ValueError as error:
            raise PlanError(f"The hints cannot be honoured together: {self._with_names(str(error))}") from error
        except RuntimeError as error:
            raise InfeasibleError(f"The search gave up: {self._with_names(str(error))} (hints= fixes choices)") from error
        choices = Choices(result.operators, result.tensors)
        self.check_fed(choices)
        return choices, result

    def _with_names(self, message: str) -> str:
        """A native message, with the names of the operators and tensors that it numbers."""

        def name(match: re.Match[str]) -> str:
            kind, number = match[1], int(match[2])
            known = self.graph.operators if kind == "operator" else self.graph.tensors
            return f"{kind} {known[number].name}" if number < len(known) else match[0]

        return re.sub(r"(operator|tensor) (\d+)", name, message)

    def evaluate(self, choices: Choices) -> Any:
        """The native cost of `choices`: total_bytes, step_bytes and the breakdown by group and tensor."""
        return _core.evaluate(self.native, list(self.factors), choices.operators, choices.tensors)

    def check_fed(self, choices: Choices) -> None:
        """Raise InfeasibleError where at some step no operator at all is split: those workers would all do the same."""
        split = choices.operators[: len(self.graph.operators)]
        for step, factor in enumerate(self.factors):
            if len(split) and np.all(split[:, step] == REPLICATED):
                largest = max(
                    (
                        (max(a.extents, default=1), o.name)
                        for a, o in zip(self.accesses, self.graph.operators, strict=True)
                    )
                )
                fed = prod(self.factors[:step])
                raise InfeasibleError(
                    f"{prod(self.factors)} workers cannot be fed: after {fed} parts no operator has an axis left that "
                    f"divides into {factor} more (the longest axis of all is {largest[0]}, in {largest[1]}). "
                    f"Use ngpus={max(fed, 1)}, or a larger batch."
                )

    def fix_hints(self, hints: Mapping[str, Any]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """The user's hints as native choices; PlanError lists the rule that one breaks."""
        return resolve_hints(self, hints)

    def choices_of(self, plan: Plan) -> Choices:
        """The choices that `plan` makes for this graph. Raises PlanError where the two do not fit; the fingerprint is not looked at."""
        return resolve_plan(self, plan)

    def tensor_steps(self, choices: Choices) -> dict[str, Steps]:
        """Tensor name -> dimension split at each step."""
        return {
            tensor.name: tuple(None if d == REPLICATED else int(d) for d in choices.tensors[position])
            for position, tensor in enumerate(self.graph.tensors)
        }

    def operator_steps(self, choices: Choices) -> dict[str, AxisSteps]:
        """Operator name -> name of the axis split at each step."""
        return {
            operator.name: tuple(None if a == REPLICATED else access.axes[a] for a in choices.operators[position])
            for position, (operator, access) in enumerate(zip(self.graph.operators, self.accesses, strict=True))
        }

    def update_choices(self, tensors: ChoiceArray) -> ChoiceArray:
        """The rows of weight updates: each takes its weight's layout."""
        parameters = sorted(self.graph.updated)
        return tensors[parameters] if parameters else np.empty((0, len(self.factors)), np.int32)

    def layout(self, choices: Choices, tensor: int) -> list[int]:
        """The dimension of tensor `tensor` split at each step."""
        return [int(d) for d in choices.tensors[tensor]]

    def shards(self, choices: Choices, tensor: int) -> npt.NDArray[np.int64]:
        """Where each worker's shard of a tensor lies: [workers, dimensions, (begin, end)]."""
        return self.tensor_shards(tensor, self.layout(choices, tensor))

    def tensor_shards(self, tensor: int, layout: Sequence[int]) -> npt.NDArray[np.int64]:
        """The same for any layout of a tensor."""
        return _core.shards(self.native, list(self.factors), tensor, list(layout))


def find_live_operators(graph: Graph, accesses: Sequence[OperatorAccess]) -> frozenset[int]:
    """Operators whose results reach an output or a gradient; others feed only inputs that their kernels never read."""
    wanted = {*graph.outputs, *graph.gradients.values()}
    live = set()
    for position in reversed(range(len(graph.operators))):
        operator, access = graph.operators[position], accesses[position]
        if operator.mutates or wanted.intersection(operator.outputs):
            live.add(position)
            wanted.update(t for t, read in zip(operator.inputs, access.inputs, strict=True) if read.is_read)
    return frozenset(live)


def _rows(rows: Sequence[Row]) -> list[tuple[list[tuple[int, int]], int, int]]:
    return [(list(terms), lower, upper) for terms, lower, upper in rows]


def _label(*values: object) -> int:
    """A structural label: equal for equal operators or tensors, whatever their names."""
    return int.from_bytes(hashlib.blake2b(repr(values).encode(), digest_size=8).digest(), "little")
