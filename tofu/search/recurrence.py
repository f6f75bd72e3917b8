"""Equal time steps of a recurrence, which are planned once (section 5.1).

A recurrence is a part of a graph that each time step repeats, with results of the previous step as inputs.
Corresponding operators of equal steps form a *family*. They are split alike, and so are the tensors between them.
`tofu.search.time_steps` finds the equal steps of the forward pass. Further families are
- equal forward operators that read corresponding results, such as a loss for each step,
- equal forward operators that compute inputs of corresponding operators, such as an embedding for each step,
- backward operators of corresponding forward operators, and
- sums of corresponding gradients.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tofu.graph import Graph, Operator, Tensor, TensorKind
from tofu.search.dataflow import Dataflow, trace_dataflow
from tofu.search.time_steps import find_time_steps

# Tensors that the user passes to each training step.
GIVEN_KINDS = (TensorKind.INPUT, TensorKind.HEAD_GRADIENT)

Key = tuple[object, ...]


@dataclass(frozen=True)
class EqualParts:
    """Operators and tensors that are split alike, such as `operators=((3, 7, 11), (4, 8, 12))`.

    Each inner tuple is a *family* of two or more numbers in ascending order. No number is in two families.
    """

    operators: tuple[tuple[int, ...], ...]
    tensors: tuple[tuple[int, ...], ...]

    def refine(self, kinds: Sequence[object]) -> EqualParts:
        """Divide each family (set of operators) into families with equal `kinds`."""
        parts: dict[tuple[int, object], list[int]] = defaultdict(list)
        for number, family in enumerate(self.operators):
            for position in family:
                parts[number, kinds[position]].append(position)
        return EqualParts(tuple(tuple(part) for part in parts.values() if len(part) > 1), self.tensors)

    def split_by_fixed_choices(
        self, operators: Mapping[int, Sequence[int]], tensors: Mapping[int, Sequence[int]]
    ) -> EqualParts:
        """Divide each family into families with equal fixed choices."""

        def split(
            families: tuple[tuple[int, ...], ...], fixed: Mapping[int, Sequence[int]]
        ) -> Iterator[tuple[int, ...]]:
            for family in families:
                if len({tuple(fixed[member]) for member in family if member in fixed}) < 2:
                    yield family
                    continue
                parts: dict[tuple[int, ...], list[int]] = defaultdict(list)
                for member in family:
                    parts[tuple(fixed.get(member, ()))].append(member)
                yield from (tuple(part) for part in parts.values() if len(part) > 1)

        return EqualParts(tuple(split(self.operators, operators)), tuple(split(self.tensors, tensors)))

    def for_graph(self, graph: Graph, other: Graph) -> EqualParts:
        """Return the same families, numbered as in the graph `other`. Names identify operators and tensors."""

        def carry(
            families: tuple[tuple[int, ...], ...], named: Sequence[Operator | Tensor], index: Mapping[str, int]
        ) -> tuple[tuple[int, ...], ...]:
            names = ([named[position].name for position in family] for family in families)
            found = (tuple(sorted(index[name] for name in family if name in index)) for family in names)
            return tuple(family for family in found if len(family) > 1)

        return EqualParts(
            carry(self.operators, graph.operators, other.operator_index),
            carry(self.tensors, graph.tensors, other.tensor_index),
        )


NO_PARTS = EqualParts((), ())


def find_equal_parts(graph: Graph) -> EqualParts:
    """Return the operators and tensors that repeat in the time steps of a recurrence, such as an unrolled LSTM.

    >>> find_equal_parts(Graph((), (), ()))
    EqualParts(operators=(), tensors=())
    """
    dataflow = trace_dataflow(graph)
    family_keys = _FamilyKeys(dataflow)
    families: dict[Key, list[int]] = defaultdict(list)
    for position, key in enumerate(family_keys.keys()):
        if key is not None:
            families[key].append(position)
    operators = tuple(tuple(family) for family in families.values() if len(family) > 1)
    return EqualParts(operators, _tie_tensors(dataflow, operators))


class _FamilyKeys:
    def __init__(self, dataflow: Dataflow) -> None:
        self.dataflow = dataflow
        self.ids: dict[Key, int] = {}
        self.key_of: list[Key | None] = [None] * len(dataflow.graph.operators)
        self.step_of: dict[int, tuple[int, int]] = {}  # operator -> its recurrence and its time step
        for number, (chain, classes) in enumerate(find_time_steps(dataflow)):
            for operator, step in chain.steps.items():
                self.key_of[operator] = ("step", number, step, operator)
                self.step_of[operator] = number, step
            for equal in classes:
                for step, counterpart in equal.counterparts.items():
                    for x, y in counterpart.items():
                        self.key_of[y] = ("equal", number, equal.reference, x)
                        self.step_of[y] = number, step

    def keys(self) -> list[Key | None]:
        repeated = Counter(self.dataflow.signatures)
        for position, operator in enumerate(self.dataflow.graph.operators):
            if self.key_of[position] is not None:
                continue
            if operator.sums_gradients:
                self.key_of[position] = self._make_sum_key(position)
            elif operator.forward is not None:
                self.key_of[position] = self._make_backward_key(position, operator.forward)
            elif repeated[self.dataflow.signatures[position]] > 1:
                self.key_of[position] = self._make_forward_key(position)
        return self.key_of

    def _identify(self, key: Key) -> int:
        return self.ids.setdefault(key, len(self.ids))

    def _key(self, producer: int) -> Key | None:
        return self.key_of[producer] if producer >= 0 else None

    def _find_producer_family(self, tensor: int) -> tuple[int, int] | None:
        producer, output = self.dataflow.producers[tensor]
        key = self._key(producer)
        return None if key is None else (self._identify(key), output)

    def _make_forward_key(self, position: int) -> Key | None:
        dataflow = self.dataflow
        inputs = dataflow.graph.operators[position].inputs
        producers = [dataflow.producers[t][0] for t in inputs]
        steps: dict[int, list[int]] = defaultdict(list)
        for producer in producers:
            if producer in self.step_of:
                chain, step = self.step_of[producer]
                steps[chain].append(step)
        parts: list[object] = []
        joins = False
        for tensor, producer in zip(inputs, producers, strict=True):
            source = self._find_producer_family(tensor)
            if source is not None:
                joins = True
                chain, step = self.step_of.get(producer, (-1, 0))
                parts.append((*source, chain, step - min(steps.get(chain, [0]))))
            elif producer >= 0:
                parts.append(("piece of", producer))
            else:
                given = dataflow.graph.tensors[tensor].kind in GIVEN_KINDS
                parts.append("given" if given else ("variable", tensor))
        if not joins:
            fed = self._find_reader_families(position)
            if not fed or dataflow.shared.isdisjoint(inputs):
                return None
            parts.append(fed)
        if len(steps) == 1:
            chain, found = next(iter(steps.items()))
            self.step_of[position] = chain, min(found)
        return ("reader", dataflow.signatures[position], *parts)

    def _find_reader_families(self, position: int) -> tuple[int, ...]:
        keys = [self.key_of[user] for user in self.dataflow.followers.get(position, ())]
        if any(key is None or key[0] != "equal" for key in keys):
            return ()
        return tuple(sorted({self._identify(key) for key in keys if key is not None}))

    def _make_backward_key(self, position: int, forward: int) -> Key | None:
        key = self.key_of[forward]
        if key is None:
            return None
        if forward in self.step_of:
            self.step_of[position] = self.step_of[forward]
        parts: list[object] = []
        for tensor in self.dataflow.graph.operators[position].inputs:
            producer = self.dataflow.producers[tensor][0]
            if producer >= 0 and producer not in self.dataflow.forward:
                parts.append("gradient")
            elif self._is_in_same_step(producer, forward):
                parts.append(self._find_producer_family(tensor))
            else:
                parts.append("input")
        return ("backward", self.dataflow.signatures[position], self._identify(key), *parts)

    def _is_in_same_step(self, producer: int, operator: int) -> bool:
        key = self._key(producer)
        beside = self.step_of.get(producer) == self.step_of.get(operator)
        return key is not None and key[0] != "step" and beside and producer in self.step_of

    def _make_sum_key(self, position: int) -> Key | None:
        terms: set[object] = set()
        for tensor in self.dataflow.graph.operators[position].inputs:
            producer, output = self.dataflow.producers[tensor]
            key = self._key(producer)
            if key is not None and key[0] == "sum":
                terms.update(key[2])  # type: ignore[arg-type]
            elif key is not None:
                terms.add((self._identify(key), output))
            else:
                terms.add(("tensor", tensor))
        if all(isinstance(term, tuple) and term[0] == "tensor" for term in terms):
            return None
        return ("sum", self.dataflow.signatures[position], frozenset(terms))


def _tie_tensors(dataflow: Dataflow, families: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    graph = dataflow.graph
    tied: list[list[int]] = []
    is_member = {operator for family in families for operator in family}
    for family in families:
        members = [graph.operators[o] for o in family]
        tied += [[o.outputs[index] for o in members] for index in range(len(members[0].outputs))]
        for slot in range(len(members[0].inputs)):
            read = [o.inputs[slot] for o in members]
            if all(t not in dataflow.shared and dataflow.producers[t][0] not in is_member for t in read):
                tied.append(read)
    return join_families(tied)


def join_families(sets: Iterable[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Join sets with common members: [1, 2] and [2, 3] become (1, 2, 3). Drop sets of one member."""
    parent: dict[int, int] = {}

    def root(member: int) -> int:
        parent.setdefault(member, member)
        while parent[member] != member:
            parent[member] = parent[parent[member]]
            member = parent[member]
        return member

    for members in sets:
        for member in members:
            parent[root(member)] = root(members[0])
    joined: dict[int, list[int]] = defaultdict(list)
    for member in sorted(parent):
        joined[root(member)].append(member)
    return tuple(tuple(members) for members in joined.values() if len(members) > 1)
