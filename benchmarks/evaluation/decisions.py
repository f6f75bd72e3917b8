"""A search as tables of pairs, for solvers of others: who decides, what each can take, and what the choices of two who meet cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.shared.dominance import drop_dominated
from benchmarks.shared.pairwise_solvers import FORBIDDEN, Table
from tofu import _core
from tofu.errors import PlanError
from tofu.search import Choices, Problem
from tofu.search.cost import evaluate

Sequences = list[tuple[int, ...]]
Decider = tuple[str, int]  # "operator" or "tensor", and the first of those that it decides for
Pair = tuple[Decider, Decider]
KINDS = "operator", "tensor"


class Decisions:
    """Who decides in a problem: classes of operators and of tensors, what they can take, and what each pair of them costs."""

    def __init__(self, problem: Problem, graph: _core.Graph) -> None:
        self.problem, self._graph = problem, graph
        self._asked: dict[tuple[object, ...], npt.NDArray[np.bool_]] = {}
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
    def allowed(self) -> dict[Pair, npt.NDArray[np.bool_]]:
        """Of who decides for an operator and for a tensor that it writes in place: which of their choices go together."""
        found: dict[Pair, npt.NDArray[np.bool_]] = {}
        for number, operator in enumerate(self.problem.graph.operators):
            for slot in operator.mutates:
                pair = ("operator", self.roots[number]), ("tensor", self.classes[operator.inputs[slot]])
                own = self._ask(number, slot, *(self.domains[who] for who in pair))
                found[pair] = found.get(pair, True) & own
        return found

    def _ask(self, number: int, slot: int, choices: Sequences, layouts: Sequences) -> npt.NDArray[np.bool_]:
        """What the core says of a graph of this operator and this tensor alone."""
        access, tensor = self.problem.accesses[number], self.problem.graph.operators[number].inputs[slot]
        key = id(access), slot, self.problem.graph.tensors[tensor].shape, tuple(choices), tuple(layouts)
        if key not in self._asked:
            alone = _core.Graph()
            alone.add_tensor(self.problem.graph.tensors[tensor].shape, 1, True, 0)
            alone.add_operator(access.extents, [(0, access.inputs[slot].rows, [], 0.0, True)], [], 0, 0, 0)
            self._asked[key] = np.array(
                [[_is_possible(alone, self.problem.factors, one, other) for other in layouts] for one in choices]
            )
        return self._asked[key]

    @cached_property
    def tables(self) -> dict[Pair, Table]:
        """The bytes of each pair of choices of two who meet, `FORBIDDEN` where they do not go together.

        Who decides for operators takes its i-th choice, weights take the (i + j)-th and all others the j-th, for all i and j, so that one
        evaluation fills an entry of every table; updates, which take the choice of their weight, meet gradients alone. Where two do not go
        together, the tensor takes another choice; in a second turn, the operator does.
        """
        found: dict[Pair, Table] = {}
        weights = {("tensor", self.classes[weight]) for weight, _ in self.problem.graph.updates}
        for sizes, yields in ((self._count_met(), 1), ({goes.shape for goes in self.allowed.values()}, 0)):
            for i in range(max((rows for rows, _ in sizes), default=0)):
                for j in range(max(columns for rows, columns in sizes if rows > i)):
                    taken = {
                        who: (i if who[0] == "operator" else i + j if who in weights else j) % len(own)
                        for who, own in self.domains.items()
                    }
                    self._reconcile(taken, yields)
                    self._fill(found, taken)
        for pair, goes in self.allowed.items():
            found.setdefault(pair, np.zeros(goes.shape, np.int64))[~goes] = FORBIDDEN
        return found

    def _count_met(self) -> set[tuple[int, int]]:
        """How many choices there are on both sides of a pair, of all pairs."""
        graph = self.problem.graph
        met: set[Pair] = {(("tensor", self.classes[a]), ("tensor", self.classes[b])) for a, b in graph.updates}
        for root, operator in zip(self.roots, graph.operators, strict=True):
            tensors = (*operator.inputs, *operator.outputs)
            met.update((("operator", root), ("tensor", self.classes[tensor])) for tensor in tensors)
        return {(len(self.domains[a]), len(self.domains[b])) for a, b in met}

    def _reconcile(self, taken: dict[Decider, int], yields: int) -> None:
        """Who decides for operators (`yields`: 0) or for tensors (1) takes a choice that goes with those of the others."""
        for who, partners in self._partners[yields].items():
            if all(allowed[taken[who]][taken[other]] for other, allowed in partners):
                continue
            goes = (n for n in range(len(self.domains[who])) if all(own[n][taken[other]] for other, own in partners))
            number = next(goes, None)
            if number is None:
                raise PlanError(
                    f"{self._name(who)} has no choice that goes with all that is written in place, so the costs of pairs "
                    "cannot be told apart. Take a model in which it writes tensors of one shape."
                )
            taken[who] = number

    @cached_property
    def _partners(self) -> list[dict[Decider, list[tuple[Decider, list[list[bool]]]]]]:
        """For operators and for tensors: who decides, the others that it meets in place, and which of its choices go with theirs."""
        found: list[dict[Decider, list[tuple[Decider, list[list[bool]]]]]] = [{}, {}]
        for pair, allowed in self.allowed.items():
            for side, own in enumerate((allowed, allowed.T)):
                found[side].setdefault(pair[side], []).append((pair[1 - side], own.tolist()))
        return found

    def _name(self, who: Decider) -> str:
        kind, number = who
        named = self.problem.graph.operators if kind == "operator" else self.problem.graph.tensors
        return f"{kind} {named[number].name}"

    def _fill(self, found: dict[Pair, Table], taken: dict[Decider, int]) -> None:
        sums: dict[Pair, int] = {}
        for owner, tensor, _, count, _ in evaluate(self.problem, self.choose(taken)).items:
            pair = self._owners[owner], ("tensor", self.classes[tensor])
            sums[pair] = sums.get(pair, 0) + count
        for (a, b), count in sums.items():
            if (a, b) not in found:
                found[a, b] = np.zeros((len(self.domains[a]), len(self.domains[b])), np.int64)
            found[a, b][taken[a], taken[b]] = count

    @cached_property
    def _owners(self) -> list[Decider]:
        """Who decides for each operator, and for the update of each tensor: that is its weight's."""
        return [("operator", root) for root in self.roots] + [("tensor", one) for one in self.classes]

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
        return Choices(np.concatenate([operators, tensors[updates]]), tensors)

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


def _is_possible(graph: _core.Graph, factors: Sequence[int], choice: Sequence[int], layout: Sequence[int]) -> bool:
    try:
        _core.evaluate(graph, list(factors), np.array([choice], np.int32), np.array([layout], np.int32))
    except ValueError:
        return False
    return True
