"""Search for the time steps of an unrolled recurrence in a graph, and for equal steps (section 5.1).

**Anchors.** In each step, a recurrence repeats an operator that reads the same parameters. These operators are the
*anchors* if each depends on the previous one. The n-th anchor belongs to step n. Operators that have no path to or from
some anchor are dropped.

**Steps.** Let d(x) be the number of anchors that depend on an operator x, and a(x) the number of anchors that x depends
on. Step t of T has
- every operator x with d(x) = T - t and a(x) >= max(t - 1, 1), which is between anchor t and anchor t + 1, and
- every operator whose results only step t reads, such as the product with the step's input.

Operators with other readers, such as a loss, belong to no step. The operators of the last step are found by comparison
with another step.

**Equal steps.** In equal steps, the operators correspond one-to-one. They have equal signatures, corresponding inputs,
and states from the same number of steps ago. Any operator may compute initial states, inputs of steps, and states from
a step that is not equal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tofu.search.dataflow import Dataflow

Correspondence = dict[int, int]  # operator of one step -> the corresponding operator of another


@dataclass(frozen=True)
class Chain:
    """A recurrence. `steps` maps each operator to the number of its time step, from 1.

    `anchors` has one operator for each step.
    """

    anchors: tuple[int, ...]
    steps: dict[int, int]

    @property
    def last(self) -> int:
        """The number of the last step."""
        return len(self.anchors)

    def members(self) -> dict[int, list[int]]:
        """Return the operators of each step."""
        found: dict[int, list[int]] = defaultdict(list)
        for operator, step in self.steps.items():
            found[step].append(operator)
        return found


@dataclass(frozen=True)
class EqualSteps:
    """A set of equal steps of a recurrence.

    `counterparts[t]` maps operators of step `reference` to the corresponding operators of step t.
    """

    reference: int
    counterparts: dict[int, Correspondence]


def find_time_steps(dataflow: Dataflow) -> Iterator[tuple[Chain, list[EqualSteps]]]:
    """Yield the recurrences of a graph, each with its sets of equal time steps."""
    taken: set[int] = set()
    depths = _find_depths(dataflow)
    for family in _candidate_anchors(dataflow):
        if any(anchor in taken for anchor in family) or len({depths[anchor] for anchor in family}) == 1:
            continue  # anchors of equal depth do not depend on each other
        chain = _trace_chain(dataflow, family, taken)
        if chain is None:
            continue
        classes = _Comparison(dataflow, chain, taken).classes()
        taken.update(chain.steps)
        for equal in classes:
            taken.update(*(counterpart.values() for counterpart in equal.counterparts.values()))
        yield chain, classes


def _candidate_anchors(dataflow: Dataflow) -> list[list[int]]:
    families: dict[int, list[int]] = defaultdict(list)
    for position, operator in enumerate(dataflow.graph.operators):
        if position in dataflow.forward and not dataflow.shared.isdisjoint(operator.inputs):
            families[dataflow.signatures[position]].append(position)
    repeated = [family for family in families.values() if len(family) > 1]
    return sorted(repeated, key=lambda f: (-len(f), dataflow.kinds[f[0]], sorted(dataflow.futures[o] for o in f), f[0]))


def _find_depths(dataflow: Dataflow) -> dict[int, int]:
    depths: dict[int, int] = {}
    for position, sources in dataflow.forward.items():
        depths[position] = max((depths[source] for source in sources), default=0) + 1
    return depths


def _count_anchors_before(dataflow: Dataflow, anchors: Sequence[int]) -> dict[int, int]:
    return _count_along(dataflow.forward, dataflow.forward, {anchor: i + 1 for i, anchor in enumerate(anchors)})


def _count_anchors_after(dataflow: Dataflow, anchors: Sequence[int]) -> dict[int, int]:
    left = {anchor: len(anchors) - i for i, anchor in enumerate(anchors)}
    return _count_along(reversed(list(dataflow.forward)), dataflow.followers, left)


def _count_along(
    order: Iterable[int], neighbours: Mapping[int, Sequence[int]], numbers: Mapping[int, int]
) -> dict[int, int]:
    reached: dict[int, int] = {}  # the largest number, with the operator itself included
    counts: dict[int, int] = {}
    for position in order:
        count = 0
        for neighbour in neighbours[position]:
            if reached[neighbour] > count:
                count = reached[neighbour]
        counts[position] = count
        reached[position] = numbers.get(position, count)
    return counts


def _keep_comparable(dataflow: Dataflow, anchors: Sequence[int]) -> list[int]:
    number = {anchor: i for i, anchor in enumerate(anchors)}
    needed: dict[int, int] = {}  # operator -> the anchors that it depends on, itself included, as bits
    earlier: dict[int, int] = {}  # anchor -> the anchors that it depends on, as bits
    for position, sources in dataflow.forward.items():
        bits = 0
        for source in sources:
            bits |= needed[source]
        if position in number:
            earlier[position] = bits
            bits |= 1 << number[position]
        needed[position] = bits
    counts = [bin(earlier[anchor]).count("1") for anchor in anchors]
    for anchor in anchors:
        for other, i in number.items():
            if earlier[anchor] >> i & 1:
                counts[number[other]] += 1
    return [anchor for anchor, count in zip(anchors, counts, strict=True) if count == len(anchors) - 1]


def _trace_chain(dataflow: Dataflow, family: list[int], taken: set[int]) -> Chain | None:
    before = _count_anchors_before(dataflow, family)
    if any(before[anchor] != i for i, anchor in enumerate(family)):
        if all(before[anchor] == 0 for anchor in family):
            return None
        family = _keep_comparable(dataflow, family)
        if len(family) < 2:
            return None
        before = _count_anchors_before(dataflow, family)
    after = _count_anchors_after(dataflow, family)
    # Another operator of the same kind between two anchors, with another parameter, begins another step.
    kind, total = dataflow.kinds[family[0]], len(family)
    others = [
        o for o in before if dataflow.kinds[o] == kind and o not in family and 0 < before[o] == total - after[o] < total
    ]
    if others:
        longer = sorted((*family, *others))
        before_longer = _count_anchors_before(dataflow, longer)
        if all(before_longer[anchor] == i for i, anchor in enumerate(longer)):
            family, total, before, after = longer, len(longer), before_longer, _count_anchors_after(dataflow, longer)
    steps = {family[0]: 1, family[-1]: total}
    for position in before:
        step = total - after[position]
        if position not in taken and 1 <= step < total and before[position] >= max(step - 1, 1):
            steps[position] = step
    _add_preparations(dataflow, steps, [o for o in before if o not in taken])
    return Chain(tuple(family), steps)


def _add_preparations(dataflow: Dataflow, steps: dict[int, int], candidates: list[int]) -> None:
    kept = {*dataflow.graph.outputs, *dataflow.graph.next_values.values()}
    for position in reversed(candidates):
        if position in steps or kept.intersection(dataflow.graph.operators[position].outputs):
            continue
        users = {steps.get(user, 0) for user in dataflow.followers[position]}
        if len(users) == 1 and users != {0}:
            steps[position] = users.pop()


class _Comparison:
    def __init__(self, dataflow: Dataflow, chain: Chain, taken: set[int]) -> None:
        self.dataflow = dataflow
        self.chain = chain
        self.taken = taken
        self.members = chain.members()

    def classes(self) -> list[EqualSteps]:
        last = self.chain.last
        found: list[EqualSteps] = []
        for step in (*range(2, last), 1, last):
            for equal in found:
                counterpart = self._match_steps(equal.reference, step)
                if counterpart is not None:
                    equal.counterparts[step] = counterpart
                    break
            else:
                found.append(EqualSteps(step, {step: {o: o for o in self.members[step]}}))
        return [part for equal in found for part in self._split_by_states(equal, found)]

    def _is_state(self, operator: int, step: int) -> bool:
        return 0 < self.chain.steps.get(operator, 0) < step

    def _match_steps(self, reference: int, step: int) -> Correspondence | None:
        if reference == self.chain.last:
            return None
        anchors = self.chain.anchors
        counterpart: Correspondence = {}
        back: Correspondence = {}
        waiting = [(anchors[reference - 1], anchors[step - 1])]
        while waiting:
            while waiting:
                x, y = waiting.pop()
                if counterpart.get(x, y) != y or back.get(y, x) != x:
                    return None
                if x in counterpart:
                    continue
                counterpart[x], back[y] = y, x
                if not self._match_inputs(x, y, reference, step, waiting):
                    return None
            matched = self._match_readers(counterpart, back, reference, step)
            if matched is None:
                return None
            waiting = matched
        return counterpart if self._covers_step(counterpart, reference) and self._covers_step(back, step) else None

    def _match_inputs(self, x: int, y: int, reference: int, step: int, waiting: list[tuple[int, int]]) -> bool:
        dataflow = self.dataflow
        if dataflow.signatures[x] != dataflow.signatures[y]:
            return False
        operators = dataflow.graph.operators
        for u, v in zip(operators[x].inputs, operators[y].inputs, strict=True):
            (p, p_output), (q, q_output) = dataflow.producers[u], dataflow.producers[v]
            p_state, q_state = self._is_state(p, reference), self._is_state(q, step)
            if p_state or q_state:
                if (p_state or reference == 1) and (q_state or step == 1):
                    continue
                return False
            if self.chain.steps.get(p) == reference:
                if q < 0 or p_output != q_output or not self._may_belong(q, step):
                    return False
                waiting.append((p, q))
            elif self.chain.steps.get(q) == step:
                return False
        return True

    def _may_belong(self, operator: int, step: int) -> bool:
        own = self.chain.steps.get(operator)
        return own == step or (own is None and step == self.chain.last and operator in self.dataflow.forward)

    def _match_readers(
        self, counterpart: Correspondence, back: Correspondence, reference: int, step: int
    ) -> list[tuple[int, int]] | None:
        operators = self.dataflow.graph.operators
        certain: list[tuple[int, int]] = []
        alike: list[tuple[int, int]] = []
        for x, y in counterpart.items():
            for u, v in zip(operators[x].outputs, operators[y].outputs, strict=True):
                wanted = self._list_unmatched_readers(u, reference, counterpart)
                offered = self._list_unmatched_readers(v, step, back) if wanted else {}
                for key, left in wanted.items():
                    right = offered.get(key, [])
                    if len(right) < len(left) or (len(right) > len(left) and step != self.chain.last):
                        return None
                    pairs = certain if len(left) == len(right) == 1 else alike
                    pairs.append((left[0], right[0]))
        return certain or alike[:1]

    def _list_unmatched_readers(
        self, tensor: int, step: int, known: Correspondence
    ) -> dict[tuple[object, ...], list[int]]:
        slots: dict[int, list[int]] = defaultdict(list)
        for reader, slot in self.dataflow.readers[tensor]:
            if reader not in known and reader not in self.taken and self._may_belong(reader, step):
                slots[reader].append(slot)
        found: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for reader in sorted(slots, key=lambda o: (self.dataflow.futures[o], o)):
            found[(self.dataflow.signatures[reader], *slots[reader])].append(reader)
        return found

    def _covers_step(self, known: Correspondence, step: int) -> bool:
        rest = [operator for operator in self.members[step] if operator not in known]
        if step == self.chain.last or not rest:
            return True
        if step != 1:
            return False
        made: set[int] = set()
        for operator in sorted(rest):
            sources = {self.dataflow.producers[t][0] for t in self.dataflow.graph.operators[operator].inputs}
            if sources & (known.keys() | made):
                return False
        return True

    def _split_by_states(self, equal: EqualSteps, classes: list[EqualSteps]) -> list[EqualSteps]:
        class_of = {step: number for number, class_ in enumerate(classes) for step in class_.counterparts}
        local = {
            o: x for class_ in classes for counterpart in class_.counterparts.values() for x, o in counterpart.items()
        }
        slots = [
            slot for slot in self._slots(equal) if any(self._is_read_state(equal, s, slot) for s in equal.counterparts)
        ]
        profiles = {
            s: tuple(self._state(equal, s, slot, class_of, local) for slot in slots) for s in equal.counterparts
        }
        counts = Counter(profile for profile in profiles.values() if None not in profile)
        if not counts:
            return [equal]
        usual = min(counts, key=lambda p: (-counts[p], min(s for s in profiles if profiles[s] == p)))
        parts: dict[object, list[int]] = defaultdict(list)
        for step, profile in sorted(profiles.items()):
            agrees = all(a is None or a == b for a, b in zip(profile, usual, strict=True))
            parts[usual if agrees else profile].append(step)
        return [self._restrict(equal, steps) for steps in parts.values()]

    def _slots(self, equal: EqualSteps) -> list[tuple[int, int]]:
        common = set.intersection(*(set(counterpart) for counterpart in equal.counterparts.values()))
        return [(x, slot) for x in sorted(common) for slot in range(len(self.dataflow.graph.operators[x].inputs))]

    def _producer(self, equal: EqualSteps, step: int, slot: tuple[int, int]) -> tuple[int, int]:
        operator = self.dataflow.graph.operators[equal.counterparts[step][slot[0]]]
        return self.dataflow.producers[operator.inputs[slot[1]]]

    def _is_read_state(self, equal: EqualSteps, step: int, slot: tuple[int, int]) -> bool:
        return self._is_state(self._producer(equal, step, slot)[0], step)

    def _state(
        self, equal: EqualSteps, step: int, slot: tuple[int, int], class_of: dict[int, int], local: dict[int, int]
    ) -> tuple[int, int, int] | None:
        producer, output = self._producer(equal, step, slot)
        made = self.chain.steps.get(producer, 0)
        if not self._is_state(producer, step) or class_of[made] != class_of[step] or producer not in local:
            return None
        return step - made, local[producer], output

    @staticmethod
    def _restrict(equal: EqualSteps, steps: list[int]) -> EqualSteps:
        if equal.reference in steps:
            return EqualSteps(equal.reference, {s: equal.counterparts[s] for s in steps})
        reference = steps[0]
        back = {y: x for x, y in equal.counterparts[reference].items()}
        counterparts = {
            s: {y: equal.counterparts[s][x] for y, x in back.items() if x in equal.counterparts[s]} for s in steps
        }
        return EqualSteps(reference, counterparts)
