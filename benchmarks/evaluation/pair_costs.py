"""What the choices of two who meet cost, by the core, on a graph of nothing but what these two decide for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tests.shared.pairwise_solvers import FORBIDDEN, Table
from tofu import _core
from tofu.graph import Phase
from tofu.search import Problem
from tofu.search.native import find_live_operators, list_replicable

Sequences = Sequence[tuple[int, ...]]


class Row(NamedTuple):
    """An operator of a part of the graph: its position, the group and phase in which it shares fetches, whether its kernel needs what it
    reads, and by slot the tensors of the part that it reads and writes. An update has its weight for an access.
    """

    position: int
    access: int
    group: int
    phase: int
    is_live: bool
    reads: tuple[tuple[int, int, bool], ...]  # slot, tensor, whether it is written in place
    writes: tuple[tuple[int, int], ...]


class Part(NamedTuple):
    """Operators that take one choice, and tensors that take one layout; of an update, its weight takes the choice."""

    rows: tuple[Row, ...]
    tensors: tuple[int, ...]
    is_of_updates: bool


class PairCosts:
    """The costs of pairs of a problem. Those of equal parts are worked out once."""

    def __init__(self, problem: Problem) -> None:
        graph = self._graph = problem.graph
        self._problem, self._live = problem, find_live_operators(graph, problem.accesses)
        self._replicable = list_replicable(graph)
        self._first = {operator: family[0] for family in problem.equal.operators for operator in family}
        untrained = {gradient for variable, gradient in graph.gradients.items() if variable not in graph.updated}
        self._read = {t for operator in graph.operators for t in operator.inputs}
        self._read |= {*graph.outputs, *untrained, *(needed for _, needed in graph.updates)}
        self._known: dict[object, Table] = {}

    def price(self, operators: Sequence[int], tensors: set[int], choices: Sequences, layouts: Sequences) -> Table:
        """The bytes by choice and layout, `FORBIDDEN` where these do not go together."""
        part = self._take_part(operators, tensors)
        described = [
            (one.shape, one.moved_item_bytes, one.times, self._replicable[t], t in self._read)
            for t, one in ((t, self._graph.tensors[t]) for t in part.tensors)
        ]
        key = tuple(row[1:] for row in part.rows), tuple(described), tuple(choices), tuple(layouts)
        if key not in self._known:
            self._known[key] = self._price(part, choices, layouts)
        return self._known[key]

    def _take_part(self, operators: Sequence[int], tensors: set[int]) -> Part:
        count, local, groups = len(self._graph.operators), dict[int, int](), dict[int, int]()
        if operators[0] >= count:
            pairs = [self._graph.updates[number - count] for number in operators]
            local = {t: number for number, t in enumerate(dict.fromkeys(t for pair in pairs for t in pair))}
            rows = [
                Row(-1, local[weight], number, int(Phase.UPDATE), True, ((0, local[needed], False),), ())
                for number, (weight, needed) in enumerate(pairs)
            ]
            return Part(tuple(rows), tuple(local), True)
        rows = []
        for position in operators:
            operator = self._graph.operators[position]
            leader = position if operator.leader is None else operator.leader
            reads, writes = (
                [(slot, local.setdefault(t, len(local))) for slot, t in enumerate(own) if t in tensors]
                for own in (operator.inputs, operator.outputs)
            )
            group = groups.setdefault(self._first.get(leader, leader), len(groups))
            in_place = tuple((slot, tensor, slot in operator.mutates) for slot, tensor in reads)
            access, is_live = id(self._problem.accesses[position]), position in self._live
            rows.append(Row(position, access, group, int(operator.phase), is_live, in_place, tuple(writes)))
        return Part(tuple(rows), tuple(local), False)

    def _price(self, part: Part, choices: Sequences, layouts: Sequences) -> Table:
        native, factors = self._build(part), list(self._problem.factors)
        weights = {row.access for row in part.rows} if part.is_of_updates else set()
        table = np.empty((len(choices), len(layouts)), np.int64)
        for i, choice in enumerate(choices):
            operators = np.array([choice] * len(part.rows), np.int32)
            for j, layout in enumerate(layouts):
                own = [choice if number in weights else layout for number in range(len(part.tensors))]
                try:
                    table[i, j] = _core.evaluate(native, factors, operators, np.array(own, np.int32)).total_bytes
                except ValueError as error:
                    if "in place" not in str(error):
                        raise
                    table[i, j] = FORBIDDEN
        return table

    def _build(self, part: Part) -> _core.Graph:
        native = _core.Graph()
        for t in part.tensors:
            one = self._graph.tensors[t]
            native.add_tensor(one.shape, one.moved_item_bytes, self._replicable[t], 0, one.times)
        for number, row in enumerate(part.rows):
            if part.is_of_updates:
                shape = self._graph.tensors[part.tensors[row.access]].shape
                cells = [([(d, 1)], 0, 1) for d in range(len(shape))]
                needed = row.reads[0][1]
                native.add_operator(
                    shape, [(needed, cells, [], 0.0)], [], row.phase, row.group, 0, follows_tensor=row.access
                )
                continue
            access = self._problem.accesses[row.position]
            inputs = [(tensor, access.inputs[slot], in_place) for slot, tensor, in_place in row.reads]
            outputs = [(tensor, access.outputs[slot]) for slot, tensor in row.writes]
            native.add_operator(
                access.extents,
                [(t, r.rows, r.addend_axes, r.fill, held, r.is_read and row.is_live) for t, r, held in inputs],
                [(t, written.rows, written.combine) for t, written in outputs],
                row.phase,
                row.group,
                0,
                same_choice_as=0 if number else -1,
                fetched_axes=[access.axes.index(axis) for axis in access.fetched_axes],
            )
        for number, t in enumerate(part.tensors):
            if t in self._read:
                native.mark_output(number)
        return native
