"""A search as tables of pairs, for solvers of others: who decides, what each can take, and what the choices of two who meet cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.evaluation.pair_costs import PairCosts
from tests.shared.dominance import drop_dominated
from tests.shared.pairwise_solvers import Table
from tofu import _core
from tofu.search import Choices, Problem

Sequences = list[tuple[int, ...]]
Decider = tuple[str, int]  # "operator" or "tensor", and the first of those that it decides for
Pair = tuple[Decider, Decider]
KINDS = "operator", "tensor"


class Decisions:
    """Who decides in a problem: classes of operators and of tensors, what they can take, and what each pair of them costs."""

    def __init__(self, problem: Problem, graph: _core.Graph) -> None:
        self.problem, self._graph = problem, graph
        whole = problem.graph
        self.roots = [graph.choice_root(operator) for operator in range(len(whole.operators))]
        self.classes = [graph.tensor_class(tensor) for tensor in range(len(whole.tensors))]

    def list_choices(self, kind: Any, number: int, factors: Sequence[int], prefix: Sequence[int] = ()) -> list[int]:
        """What one of them can take at the step after those of the prefix."""
        return list(_core.feasible_choices(self._graph, list(factors), kind, number, list(prefix)))

    @cached_property
    def domains(self) -> dict[Decider, Sequences]:
        """All sequences over the steps."""
        everybody = [("operator", root) for root in set(self.roots)] + [("tensor", one) for one in set(self.classes)]
        return {(kind, number): self._list_sequences(kind, number) for kind, number in everybody}

    def _list_sequences(self, kind: Any, number: int) -> Sequences:
        factors = self.problem.factors
        found: Sequences = [()]
        for _ in factors:
            found = [
                (*prefix, choice) for prefix in found for choice in self.list_choices(kind, number, factors, prefix)
            ]
        return found

    def count_states(self, steps: int) -> float:
        """The partitions of all tensors of a group of operators, of all groups: a forward operator, its gradients, and what they touch.

        Of the same dimensions cut in another order, one counts.
        """
        graph = self.problem.graph
        touched: dict[int, set[int]] = {}
        for number, operator in enumerate(graph.operators):
            group = self.roots[number if operator.forward is None else operator.forward]
            tensors = {self.classes[tensor] for tensor in (*operator.inputs, *operator.outputs)}
            touched.setdefault(group, set()).update(tensors)
        sizes = {one: len({tuple(sorted(s[:steps])) for s in self.domains["tensor", one]}) for one in set(self.classes)}
        return sum(prod(float(sizes[one]) for one in tensors) for tensors in touched.values())

    @cached_property
    def tables(self) -> dict[Pair, Table]:
        """The bytes of each pair of choices of two who meet, `FORBIDDEN` where they do not go together. An update takes the choice of its
        weight.
        """
        costs, found = PairCosts(self.problem), {}
        members: dict[int, set[int]] = {}
        for tensor, one in enumerate(self.classes):
            members.setdefault(one, set()).add(tensor)
        for (a, b), operators in self._list_met().items():
            table = costs.price(operators, members[b[1]], self.domains[a], self.domains[b])
            if a == b:  # nobody takes two choices
                table = np.diag(np.diagonal(table))
            if table.any():
                found[a, b] = table
        return found

    def _list_met(self) -> dict[Pair, list[int]]:
        """Who meets: who decides for operators, and for tensors that these read or write; weights, and what their updates need. And these
        operators, updates numbered after them.
        """
        graph = self.problem.graph
        met: dict[Pair, list[int]] = {}
        for number, (root, operator) in enumerate(zip(self.roots, graph.operators, strict=True)):
            for tensor in dict.fromkeys(self.classes[t] for t in (*operator.inputs, *operator.outputs)):
                met.setdefault((("operator", root), ("tensor", tensor)), []).append(number)
        for number, (weight, needed) in enumerate(graph.updates, start=len(graph.operators)):
            pair = ("tensor", self.classes[weight]), ("tensor", self.classes[needed])
            met.setdefault(pair, []).append(number)
        return met

    @cached_property
    def reduced(self) -> dict[Pair, Table]:
        """The tables without choices that another one can stand for."""
        return drop_dominated({who: len(own) for who, own in self.domains.items()}, self.tables)

    def choose(self, taken: dict[Decider, int]) -> Choices:
        """The choices in which each takes the one of that number."""
        operators, tensors = (
            sequences[[place[number] for number in numbers], [taken[kind, number] for number in numbers]]
            for (kind, (place, sequences)), numbers in zip(
                self._stacked.items(), (self.roots, self.classes), strict=True
            )
        )
        updates = [weight for weight, _ in self.problem.graph.updates]
        return Choices(self.problem, np.concatenate([operators, tensors[updates]]), tensors)

    @cached_property
    def _stacked(self) -> dict[str, tuple[dict[int, int], npt.NDArray[np.int32]]]:
        """By kind: the place of each decider, and the sequences of all of them one after the other, filled up to equal numbers."""
        found = {}
        for kind in KINDS:
            own = {number: sequences for (of, number), sequences in self.domains.items() if of == kind}
            most = max(map(len, own.values()))
            filled = [[*sequences, *sequences[:1] * (most - len(sequences))] for sequences in own.values()]
            found[kind] = {number: place for place, number in enumerate(own)}, np.array(filled, np.int32)
        return found
