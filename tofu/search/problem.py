"""The search problem of one graph: the native graph with its access rows, and the choices that solve it.

Operators keep their positions in the semantic graph; a weight update follows for each updated parameter, as an element-wise
operator that takes its weight's layout and reads the gradient there (decision 7).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tofu import _core
from tofu.analysis import OperatorAccess
from tofu.errors import InfeasibleError, PlanError
from tofu.graph import Graph, Phase
from tofu.plan import REPLICATION_LIMIT_BYTES, AxisSteps, Plan, Steps
from tofu.search.algorithms import DEFAULT_ALGORITHM, DEFAULT_SEARCH_SECONDS, check_algorithm
from tofu.search.choices import REPLICATED, ChoiceArray, Choices
from tofu.search.hints import resolve_hints, resolve_plan
from tofu.search.memory_weights import weigh_tensors
from tofu.search.native import build_native_graph, find_live_operators
from tofu.search.recurrence import EqualParts, find_equal_parts
from tofu.search.topology import Arrangement
from tofu.search.validation import check_fed

Progress = Callable[[str, int, int], None]
"""Told the stage, the bytes of the best plan so far (-1: none yet) and the proven lower bound; may raise to stop."""
Fixed = dict[int, list[int]]
"""Operator or tensor -> its choice at each step, FREE where the search decides."""
Search = Callable[[Any, list[int], tuple[Fixed, Fixed]], Any]
"""A native search: graph, factors, fixed operators and tensors -> its result."""


class Problem:
    """The native form of one graph for one number of workers.

    Parameters
    ----------
    graph, accesses
        The semantic graph and the access of each of its operators.
    factors
        Of the number of workers, one for each step.
    replication_limit_bytes
        Tensors below this size may be replicated, and of any size those that operators write in place.
    equal
        The equal time steps, whose operators share their fetches; found where nothing is given.
    """

    def __init__(
        self,
        graph: Graph,
        accesses: Sequence[OperatorAccess],
        factors: Sequence[int],
        replication_limit_bytes: int = REPLICATION_LIMIT_BYTES,
        equal: EqualParts | None = None,
    ) -> None:
        self.graph = graph
        self.accesses = tuple(accesses)
        self.arrangement = Arrangement(tuple(factors))
        self.live = find_live_operators(graph, self.accesses)
        self._replication_limit_bytes = replication_limit_bytes
        kinds = [(access.axes, access.extents) for access in self.accesses]
        self.equal = (find_equal_parts(graph) if equal is None else equal).refine(kinds)
        self.native = self._build(is_coarse=False)

    def _build(self, is_coarse: bool) -> Any:
        limit = self._replication_limit_bytes
        return build_native_graph(self.graph, self.accesses, self.live, limit, self.equal, is_coarse)

    def arrange(self, arrangement: Arrangement) -> Problem:
        """The same graph in other steps, and with the bandwidths of the levels: a search minimises nanoseconds then, not bytes."""
        arranged = copy(self)
        arranged.arrangement = arrangement
        return arranged

    def hold(self, price: float, split: Collection[int] = ()) -> Problem:
        """The same problem for a search that may replicate any tensor at any step, but those in `split`, and pays for what is held.

        `price`: of a byte that one worker holds for the whole training step, in what the search minimises.
        """
        held = copy(self)
        graph = self._build(is_coarse=True)
        for tensor, weight in enumerate(weigh_tensors(self.graph)):
            if tensor not in split:
                graph.hold(tensor, price * weight)
        held.__dict__["coarse"] = graph
        return held

    @property
    def factors(self) -> tuple[int, ...]:
        """The number of parts of each step."""
        return self.arrangement.factors

    @property
    def prices(self) -> tuple[float, ...]:
        """What a search pays for a byte at each level, in nanoseconds; empty where it counts bytes."""
        return self.arrangement.nanoseconds_per_byte

    @cached_property
    def coarse(self) -> Any:
        """The native graph with the ties of coarsening (section 5.1): what the search runs on.

        Plans that come from outside need not respect the ties, so everything else works on `native`, which has none.
        """
        return self._build(is_coarse=True)

    def forward_readers(self, tensor: int) -> Sequence[int]:
        """The forward operators that read a tensor, in the graph's order."""
        return self._forward_readers.get(tensor, ())

    @cached_property
    def _forward_readers(self) -> dict[int, list[int]]:
        readers: dict[int, list[int]] = {}
        for position, operator in enumerate(self.graph.operators):
            if operator.phase is Phase.FORWARD:
                for tensor in dict.fromkeys(operator.inputs):
                    readers.setdefault(tensor, []).append(position)
        return readers

    def search(
        self,
        hints: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        algorithm: str = DEFAULT_ALGORITHM,
        seconds: float = DEFAULT_SEARCH_SECONDS,
    ) -> tuple[Choices, Any]:
        """The "recursive" search of section 5.2, or the "exact" one, which takes `seconds` at most.

        Returns the choices and the native result with its statistics. Raises PlanError for hints that cannot be honoured
        and InfeasibleError where a step finds nothing to split.
        """
        check_algorithm(algorithm, seconds)
        run = partial(_run_exact, seconds=seconds) if algorithm == "exact" else _run_recursive
        return self.run(partial(run, prices=self.prices, progress=progress), self.fix_hints(hints or {}))

    def run(self, search: Search, fixed: tuple[Fixed, Fixed]) -> tuple[Choices, Any]:
        """One native search with some choices fixed: on the coarse graph, and on the whole one where these break its ties.

        Returns and raises what `search` does.
        """
        try:
            result = search(self.coarse, list(self.factors), fixed)
        except ValueError:  # choices that differ on tied tensors
            result = self._search_untied(search, fixed)
        except RuntimeError as error:
            raise InfeasibleError(
                f"The search gave up: {self._with_names(str(error))} (hints= fixes choices)"
            ) from error
        found = result.plan if isinstance(result, _core.ExactResult) else result
        choices = Choices(found.operators, found.tensors)
        check_fed(self, choices)
        return choices, result

    def _search_untied(self, search: Search, fixed: tuple[Fixed, Fixed]) -> Any:
        try:
            return search(self.native, list(self.factors), fixed)
        except (ValueError, RuntimeError) as error:
            raise PlanError(f"The hints cannot be honoured together: {self._with_names(str(error))}") from error

    def _with_names(self, message: str) -> str:
        """A native message, with the names of the operators and tensors that it numbers."""

        def name(match: re.Match[str]) -> str:
            kind, number = match[1], int(match[2])
            known = self.graph.operators if kind == "operator" else self.graph.tensors
            return f"{kind} {known[number].name}" if number < len(known) else match[0]

        return re.sub(r"(operator|tensor) (\d+)", name, message)

    def evaluate(self, choices: Choices) -> Any:
        """The native cost of `choices`: total_bytes, step_bytes and the breakdown by group and tensor.

        Raises PlanError for choices that no execution graph can follow.
        """
        try:
            return self._count(_core.evaluate, choices)
        except ValueError as error:
            raise PlanError(f"The plan cannot be carried out: {self._with_names(str(error))}") from error

    def price(self, choices: Choices) -> int:
        """What the search minimises: bytes, or nanoseconds where the levels of the interconnect have bandwidths."""
        return int(self._count(_core.evaluate, choices, prices=self.prices).total_bytes)

    def level_bytes(self, choices: Choices) -> tuple[int, ...]:
        """The bytes that cross each level of the interconnect, the top first; they sum to those of `evaluate`."""
        return tuple(self._count(_core.level_bytes, choices))

    def _count(self, count: Callable[..., Any], choices: Choices, **more: Any) -> Any:
        """What a native function counts for a whole plan."""
        arrays = choices.operators, choices.tensors
        return count(self.native, list(self.factors), *arrays, kept=choices.kept, reread=choices.reread, **more)

    def worth_keeping(self, choices: Choices) -> list[int]:
        """The tensors whose fetched regions would save bytes if they were kept, those first that save most for each byte that stays."""
        weighed = _core.weigh_keeping(self.native, list(self.factors), choices.operators, choices.tensors)
        written = self.graph.written_in_place
        saving = [
            (-saved / held, tensor)
            for tensor, (saved, held) in enumerate(weighed)
            if saved > 0 and tensor not in written and not self.graph.tensors[tensor].is_inner
        ]
        return [tensor for _, tensor in sorted(saving)]

    def worth_rereading(self, choices: Choices) -> list[int]:
        """The tensors whose fetched regions operators share: first those of which least is read again for each byte, then the larger."""
        tensors = [t for t, tensor in enumerate(self.graph.tensors) if not tensor.is_inner and t not in choices.kept]
        shared, alone = (self._read_bytes(replace(choices, reread=tuple(again))) for again in ((), tensors))
        ratios = [(alone[t] / shared[t], -shared[t], t) for t in tensors if alone[t] > shared[t]]
        return [tensor for *_, tensor in sorted(ratios)]

    def _read_bytes(self, choices: Choices) -> Counter[int]:
        read: Counter[int] = Counter()
        for _, tensor, _, count, is_output in self.evaluate(choices).items:
            if not is_output:
                read[tensor] += count
        return read

    def tensor_names(self, tensors: Sequence[int]) -> tuple[str, ...]:
        """The names of tensors."""
        return tuple(self.graph.tensors[tensor].name for tensor in tensors)

    def fix_hints(self, hints: Mapping[str, Any]) -> tuple[Fixed, Fixed]:
        """The user's hints as native choices; PlanError lists the rule that one breaks."""
        return resolve_hints(self, hints)

    def choices_of(self, plan: Plan) -> Choices:
        """The choices that `plan` makes for this graph. Raises PlanError where the two do not fit; the fingerprint is not looked at."""
        return resolve_plan(self, plan)

    def complete(self, operators: Fixed, tensors: Fixed, *, exactly: bool = False) -> Choices:
        """Choices with these fixed, found step by step, or the cheapest of all. Raises PlanError where nothing can be done with them."""
        asked = self.native, list(self.factors), operators, tensors
        try:
            result = _core.search_exact(*asked).plan if exactly else _core.search_recursive(*asked, None)
        except (ValueError, RuntimeError) as error:
            raise PlanError(f"The plan cannot be carried out: {self._with_names(str(error))}") from error
        return Choices(result.operators, result.tensors)

    def tensor_steps(self, choices: Choices) -> dict[str, Steps]:
        """Tensor name -> dimension split at each step."""
        return {
            tensor.name: tuple(None if d == REPLICATED else int(d) for d in choices.tensors[position])
            for position, tensor in enumerate(self.graph.tensors)
        }

    def operator_steps(self, choices: Choices) -> dict[str, AxisSteps]:
        """Operator name -> name of the axis split at each step. The inner parts of an operator do as the part with its name."""
        return {
            operator.name: tuple(None if a == REPLICATED else access.axes[a] for a in choices.operators[position])
            for position, (operator, access) in enumerate(zip(self.graph.operators, self.accesses, strict=True))
            if not operator.is_inner
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


def _run_recursive(
    graph: Any, factors: list[int], fixed: tuple[Fixed, Fixed], *, prices: Sequence[float], progress: Progress | None
) -> Any:
    def report(steps_done: int, step_bytes: int) -> None:
        if progress is not None:
            progress(f"step {steps_done}", step_bytes, 0)

    return _core.search_recursive(graph, factors, *fixed, report, prices)


def _run_exact(
    graph: Any,
    factors: list[int],
    fixed: tuple[Fixed, Fixed],
    *,
    seconds: float,
    prices: Sequence[float],
    progress: Progress | None,
) -> Any:
    return _core.search_exact(graph, factors, *fixed, seconds, progress, prices=prices)
