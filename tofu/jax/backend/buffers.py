"""Predict the temporary memory of a program from its list of operations.

The prediction follows XLA, JAX's compiler, on CPUs:

- Values within a fused operation are not stored (`fusion.py`).
- Some operations need scratch memory (`xla_operations.py`).
- Operations run in breadth-first order.
- An operation may overwrite its operands at their last use.
- Temporary values may use the memory of a result until the result is written.
- If a result would overwrite an argument before its last use, the argument is copied.

Memory within kernels is not modelled.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate
from operator import or_
from types import MappingProxyType

from tdl_ops.jax import WHOLE
from tofu.jax.backend.fusion import FUSED, Buffer, Operation, fuse, index
from tofu.jax.backend.xla_operations import Aliases, Kernels, count_bytes
from tofu.jax.frontend.control_flow import list_bodies
from tofu.jax.frontend.equations import LOOP_STACK, Equation, Loop, Step
from tofu.jax.frontend.trace import read_jaxpr
from tofu.jax.frontend.value_types import ValueType

LOOP = "loop"
IN_PLACE = FUSED | {"dynamic_update_slice", LOOP, "scatter", "scatter-add"}
"""Operations that may write a result over an operand, if nothing reads the operand later."""


def find_overwritten(step: Step, donated: Collection[int]) -> dict[int, int]:
    """Let each result overwrite an argument in `donated` with the same shape and type, if such an argument exists.

    Return {position of result: position of argument}.
    """
    free = list(donated)
    found: dict[int, int] = {}
    for position, type_ in enumerate(step.result_types):
        argument = next((n for n in free if step.types[step.inputs[n]] == type_), None)
        if argument is not None:
            free.remove(argument)
            found[position] = argument
    return found


def predict_temporaries(step: Step, overwritten: Mapping[int, int] = MappingProxyType({})) -> int:
    """Return the bytes that a step needs in addition to its arguments and results.

    `overwritten` maps results to the arguments whose memory they reuse (`find_overwritten`).
    """
    given = {*step.inputs, *step.constants}
    alias, types = Aliases(step.equations), list(step.types)
    results = {alias.find(x) for x in step.outputs if isinstance(x, int)} - given
    pairs = {
        alias.find(result): step.inputs[argument]
        for position, argument in overwritten.items()
        if isinstance(result := step.outputs[position], int)
    }
    operations = fuse(_list_operations(step.equations, types, alias), results, types)
    operations = _copy_donated(operations, pairs, types)
    depth = _number_depth_first(operations, [alias.find(x) for x in step.outputs if isinstance(x, int)])
    separate_buffers = {value: pairs.get(value) for value in sorted(results, key=lambda value: -depth.get(value, 0))}
    return _pack(_order_breadth_first(operations), types, results, separate_buffers, depth)


def _list_operations(items: Sequence[Equation | Loop], types: list[ValueType], alias: Aliases) -> Iterator[Operation]:
    kernels = Kernels(types, alias)
    for item in items:
        if isinstance(item, Loop):
            yield _make_loop_operation(item, types, alias)
        elif item.primitive.name in WHOLE:  # kept as one operation
            size = max((predict_temporaries(read_jaxpr(body)) for body in list_bodies(item.params)), default=0)
            yield Operation(item.primitive.name, alias.find_all(item.inputs), item.outputs, (Buffer(size, 0, 0),))
        elif item.primitive is not LOOP_STACK and not alias.makes_aliases(item):
            yield from kernels.make(item)


def _make_loop_operation(loop: Loop, types: list[ValueType], alias: Aliases) -> Operation:
    stacks = [item for item in loop.equations if isinstance(item, Equation) and item.primitive is LOOP_STACK]
    ends = alias.find_all([*(carry.following for carry in loop.carries), *(x for s in stacks for x in s.inputs)])
    carried = {carry.value for carry in loop.carries}
    body = list(_list_operations(loop.equations, types, alias))
    made = carried.union(*(operation.makes for operation in body))
    outside = {x for operation in body for x in operation.reads} - made
    order = _order_breadth_first(fuse(body, results := {*ends} - carried - outside, types))
    scratch = _list_buffers(order, types, results, {}).buffers
    reads = dict.fromkeys([*alias.find_all(carry.first for carry in loop.carries), *sorted(outside)])
    makes = [*(carry.last for carry in loop.carries), *(s.outputs[0] for s in stacks)]
    return Operation(LOOP, tuple(reads), tuple(makes), tuple(scratch), 1 + sum(operation.length for operation in order))


def _copy_donated(operations: Sequence[Operation], pairs: Mapping[int, int], types: list[ValueType]) -> list[Operation]:
    makers, readers = index(operations)
    before: list[int] = []  # bit m of before[n]: operation n depends on operation m
    for operation in operations:
        waited = [makers[value] for value in operation.reads if value in makers]
        before.append(reduce(lambda bits, n: bits | before[n] | 1 << n, waited, 0))
    copies: dict[int, int] = {}
    for result, argument in pairs.items():
        writer = makers.get(result)
        if writer is not None and any(n != writer and not before[writer] >> n & 1 for n in readers.get(argument, ())):
            copies[argument] = len(types)
            types.append(types[argument])
    made = [Operation("copy", (argument,), (copy,)) for argument, copy in copies.items()]
    return made + [
        replace(operation, reads=tuple(copies.get(value, value) for value in operation.reads))
        for operation in operations
    ]


def _order_breadth_first(operations: Sequence[Operation]) -> list[Operation]:
    makers, readers = index(operations)
    waiting = [sum(value in makers for value in operation.reads) for operation in operations]
    ready, order = deque(n for n, count in enumerate(waiting) if not count), []
    while ready:
        operation = operations[ready.popleft()]
        order.append(operation)
        for n in (n for value in operation.makes for n in readers.get(value, ())):
            waiting[n] -= 1
            if not waiting[n]:
                ready.append(n)
    return order


def _number_depth_first(operations: Sequence[Operation], results: Iterable[int]) -> dict[int, int]:
    makers, _ = index(operations)
    numbers: dict[int, int] = {}
    waiting = [(value, False) for value in reversed(list(results))]
    while waiting:
        value, is_done = waiting.pop()
        if value in numbers or value not in makers:
            continue
        operation = operations[makers[value]]
        if is_done:
            numbers.update((made, len(numbers)) for made in operation.makes)
        else:
            waiting += [(value, True), *((x, False) for x in reversed(operation.reads))]
    return numbers


@dataclass
class _Memory:
    """The buffers of a program. Time is counted in operations.

    Attributes
    ----------
    last
        The time at which each value is last read.
    length
        The time at which the program ends.
    of
        `buffers[of[v]]` is the buffer of value v.
    """

    last: dict[int | None, int]
    length: int
    buffers: list[Buffer] = field(default_factory=list)
    of: dict[int, int] = field(default_factory=dict)

    def add(self, buffer: Buffer) -> int:
        self.buffers.append(buffer)
        return len(self.buffers) - 1


def _list_buffers(
    order: Sequence[Operation],
    types: Sequence[ValueType],
    results: Collection[int],
    separate_buffers: Mapping[int, int | None],
) -> _Memory:
    starts = [0, *accumulate(operation.length for operation in order)]
    readers: dict[int, int] = {value: n for n, operation in enumerate(order) for value in operation.reads}
    memory = _Memory({value: starts[n + 1] - 1 for value, n in readers.items()}, starts[-1])
    memory.last.update(dict.fromkeys(results, starts[-1]))
    for n, operation in enumerate(order):
        ended = [x for x in operation.reads if readers[x] == n and x not in results and x in memory.of]
        dying = [memory.of[x] for x in ended if x not in operation.moved] if operation.name in IN_PLACE else []
        for value in operation.makes:
            size, end = count_bytes(types[value]), max(starts[n + 1] - 1, memory.last.get(value, 0))
            same = [x for x in dying if memory.buffers[x].size == size]
            if same and (operation.name == LOOP or not separate_buffers):
                dying.remove(same[0])
                memory.of[value] = same[0]
                memory.buffers[same[0]].last = end
            else:
                over = tuple(memory.buffers[x] for x in same)
                memory.of[value] = memory.add(Buffer(size, starts[n], end, over))
        memory.buffers += [buffer.shift(starts[n]) for buffer in operation.scratch]
    return memory


def _pack(
    order: Sequence[Operation],
    types: Sequence[ValueType],
    results: Collection[int],
    separate_buffers: Mapping[int, int | None],
    depth: Mapping[int, int],
) -> int:
    memory = _list_buffers(order, types, results, separate_buffers)
    spaces = {
        memory.of[value]: [Buffer(0, 0, memory.last[argument])] if argument in memory.last else []
        for value, argument in separate_buffers.items()
        if value in memory.of
    }
    numbers = {n: depth.get(value, 0) for value, n in memory.of.items()}
    counted = [
        memory.buffers[n]
        for n in sorted(range(len(memory.buffers)), key=lambda n: numbers.get(n, 0))
        if n not in spaces
    ]
    lent = [[memory.buffers[n], *taken] for n, taken in spaces.items()]
    return _count_most(_write_over(_find_unplaced(counted, lent)), memory.length)


def _find_unplaced(buffers: Sequence[Buffer], spaces: Iterable[list[Buffer]]) -> list[Buffer]:
    spaces = sorted(spaces, key=lambda space: space[0].size)
    sizes = [space[0].size for space in spaces]
    moments_in_use = [reduce(or_, (buffer.moments for buffer in space)) for space in spaces]
    space_of: dict[Buffer, int] = {}
    successors: dict[Buffer, list[Buffer]] = {}
    unplaced: list[Buffer] = []

    def add(buffer: Buffer, n: int) -> None:
        space_of[buffer] = n
        for other in buffer.over:
            successors.setdefault(other, []).append(buffer)

    def is_free(n: int, buffer: Buffer, related: set[int | None]) -> bool:
        if n in related:  # one of the two may overwrite the other
            return not any(map(buffer.overlaps, spaces[n]))
        return not moments_in_use[n] & buffer.moments

    for n, space in enumerate(spaces):
        for buffer in space:
            add(buffer, n)
    for buffer in sorted(buffers, key=lambda buffer: -buffer.size):
        related = {space_of.get(other) for other in (*buffer.over, *successors.get(buffer, ()))}
        large_enough = range(bisect_left(sizes, buffer.size), len(spaces))
        found = next((n for n in large_enough if is_free(n, buffer, related)), None)
        if found is None:
            unplaced.append(buffer)
            continue
        spaces[found].append(buffer)
        moments_in_use[found] |= buffer.moments
        add(buffer, found)
    return unplaced


def _write_over(buffers: Iterable[Buffer]) -> list[Buffer]:
    ends = {buffer: buffer.last for buffer in buffers}
    for buffer in list(ends):
        before = next((earlier for earlier in buffer.over if ends.get(earlier) == buffer.first), None)
        if before is not None:
            ends[before] -= 1
    return [replace(buffer, last=end) for buffer, end in ends.items()]


def _count_most(buffers: Iterable[Buffer], count: int) -> int:
    changes = [0] * (count + 2)
    for buffer in buffers:
        changes[buffer.first] += buffer.size
        changes[buffer.last + 1] -= buffer.size
    return max(accumulate(changes))
