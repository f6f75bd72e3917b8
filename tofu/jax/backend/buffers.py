"""What XLA will hold while a program runs beside its arguments and results: a prediction, from the program as JAX traces it.

It follows what XLA does on CPUs: elementwise operations and moves of cells are fused into what reads them, operations run breadth first,
a result's buffer serves other values before the result is there, what dies is written over, and a donated argument is copied where others
may still read it. How kernels work within themselves (copies of operands that lie in another order, packed matrices) is not known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate
from math import prod
from types import MappingProxyType

from tofu.jax.frontend.branches import RUN_WHOLE, list_bodies
from tofu.jax.frontend.equations import LOOP_STACK, Equation, Literal, Loop, Operand, Step, ValueType
from tofu.jax.frontend.trace import read_jaxpr


def _read_names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALIASES = _read_names("bitcast_convert_type expand_dims optimization_barrier random_unwrap random_wrap reshape squeeze")
"""Their results are their operands, one for one."""
CHEAP = _read_names("""
    abs add add_any and axis_index broadcast_in_dim ceil clamp clz concatenate convert_element_type dynamic_slice eq floor ge gt
    integer_pow iota is_finite le loop_cell lt max min mul ne neg nextafter not or pad population_count reduce_precision rev round
    select_n shift_left shift_right_arithmetic shift_right_logical sign slice split square sub transpose xor
""")
"""They are computed where they are read, if all that read them are fused as well."""
COSTLY = _read_names("""
    acos acosh asin asinh atan atan2 atanh cbrt cos cosh digamma div erf erf_inv erfc exp exp2 expm1 gather lgamma log log1p logistic
    pow rem rsqrt sin sinh sqrt tan tanh
""")
"""These, too, unless there are several readers."""
FUSED = CHEAP | COSTLY
IN_PLACE = FUSED | {"dynamic_update_slice", "loop", "scatter", "scatter-add"}
"""They may write over an operand that nothing reads later."""

ALONG = {"all_gather": "all_gather_dimension", "all_to_all": "split_axis", "reduce_scatter": "scatter_dimension"}
"""Collectives, and what says along which dimension they go. Where that is not the first, XLA lays it out so by a copy."""


@dataclass(eq=False)
class _Buffer:
    """A piece of memory, from the moment when it is first written to the last when it is read."""

    size: int
    first: int
    last: int

    def overlaps(self, other: _Buffer) -> bool:
        return self.first <= other.last and other.first <= self.last

    def shift(self, moments: int) -> _Buffer:
        """The same, so much later."""
        return _Buffer(self.size, self.first + moments, self.last + moments)


@dataclass(frozen=True)
class _Operation:
    """What reads values and makes others. `scratch`: what it holds while it runs, which takes `length` moments, the first of them 0."""

    name: str
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    scratch: tuple[_Buffer, ...] = ()
    length: int = 1


def count_bytes(type_: ValueType) -> int:
    """The bytes of a value."""
    return prod(type_.shape) * type_.item_bytes


def find_overwritten(step: Step, donated: Collection[int]) -> dict[int, int]:
    """Position of a result -> that of the donated argument that it is written over: the first of its type, as `jax.jit` has it."""
    free = list(donated)
    found: dict[int, int] = {}
    for position, operand in enumerate(step.outputs):
        type_ = operand.type if isinstance(operand, Literal) else step.types[operand]
        argument = next((n for n in free if step.types[step.inputs[n]] == type_), None)
        if argument is not None:
            free.remove(argument)
            found[position] = argument
    return found


def predict_temporaries(step: Step, overwritten: Mapping[int, int] = MappingProxyType({})) -> int:
    """The bytes that a program needs beside its arguments and results. `overwritten` is as `find_overwritten` gives it."""
    given = {*step.inputs, *step.constants}
    alias, types = _Aliases(step.equations), list(step.types)
    results = {alias.find(x) for x in step.outputs if isinstance(x, int)} - given
    pairs = {
        alias.find(result): step.inputs[argument]
        for position, argument in overwritten.items()
        if isinstance(result := step.outputs[position], int)
    }
    operations = _fuse(_list_operations(step.equations, types, alias), results)
    operations = _copy_overwritten(operations, pairs, types)
    return _pack(_order_breadth_first(operations), types, results, {value: pairs.get(value) for value in results})


def _list_operations(
    items: Sequence[Equation | Loop], types: Sequence[ValueType], alias: _Aliases
) -> Iterator[_Operation]:
    for item in items:
        if isinstance(item, Loop):
            yield _enclose(item, types, alias)
        elif item.primitive is not LOOP_STACK and item.primitive.name not in ALIASES:
            reads = alias.find_all(item.inputs)
            scratch = _count_scratch(item, types)
            yield _Operation(item.primitive.name, reads, item.outputs, (_Buffer(scratch, 0, 0),) if scratch else ())


def _enclose(loop: Loop, types: Sequence[ValueType], alias: _Aliases) -> _Operation:
    """A loop as one operation: what it carries and puts together are its results, what its body holds is its scratch, each for its time."""
    stacks = [item for item in loop.equations if isinstance(item, Equation) and item.primitive is LOOP_STACK]
    ends = alias.find_all([*(carry.following for carry in loop.carries), *(x for s in stacks for x in s.inputs)])
    carried = {carry.value for carry in loop.carries}
    body = list(_list_operations(loop.equations, types, alias))
    made = carried.union(*(operation.makes for operation in body))
    outside = {x for operation in body for x in operation.reads} - made
    order = _order_breadth_first(_fuse(body, results := {*ends} - carried - outside))
    scratch = _list_buffers(order, types, results, {}).buffers
    reads = dict.fromkeys([*alias.find_all(carry.first for carry in loop.carries), *sorted(outside)])
    makes = [*(carry.last for carry in loop.carries), *(s.outputs[0] for s in stacks)]
    return _Operation("loop", tuple(reads), tuple(makes), tuple(scratch), 1 + sum(one.length for one in order))


def _count_scratch(equation: Equation, types: Sequence[ValueType]) -> int:
    """What XLA is known to need for an operation itself."""
    name, result = equation.primitive.name, types[equation.outputs[0]]
    if name in RUN_WHOLE:
        return max(predict_temporaries(read_jaxpr(body)) for body in list_bodies(equation.params))
    operands = [types[x] for x in equation.inputs if isinstance(x, int)]
    if (
        name == "select_and_scatter_add"
    ):  # the largest cell of each window, by its place: a number for each dimension of all cells
        source, operand = operands
        return 4 * len(operand.shape) * (prod(operand.shape) + prod(source.shape)) + count_bytes(source)
    if name in ALONG and prod(operands[0].shape[: equation.params[ALONG[name]]]) > 1:  # cells do not follow each other
        return max(map(count_bytes, (*operands, result)))
    return 0


class _Aliases:
    """Which value an alias is of."""

    def __init__(self, items: Sequence[Equation | Loop]) -> None:
        self._of: dict[int, Operand] = {}
        self._enter(items)

    def _enter(self, items: Sequence[Equation | Loop]) -> None:
        for item in items:
            if isinstance(item, Loop):
                self._enter(item.equations)
            elif item.primitive.name in ALIASES:
                self._of.update(zip(item.outputs, item.inputs, strict=True))

    def find(self, value: int) -> int:
        """The value itself, which may be a number that the program brings along: then it stays an alias."""
        while isinstance(before := self._of.get(value), int):
            value = before
        return value

    def find_all(self, operands: Iterable[Operand]) -> tuple[int, ...]:
        """The values among operands, each once."""
        return tuple(dict.fromkeys(self.find(x) for x in operands if isinstance(x, int)))


def _fuse(operations: Iterable[_Operation], results: Collection[int]) -> list[_Operation]:
    """The operations whose results are in memory, reading what is. The others are computed where they are read."""
    operations = list(operations)
    _, readers = _index(operations)
    kept: list[_Operation] = []
    inner: dict[int, tuple[int, ...]] = {}  # a value that is in no memory -> what in memory it is computed from
    for operation in operations:
        reads = tuple(dict.fromkeys(x for value in operation.reads for x in inner.get(value, (value,))))
        found = [n for value in operation.makes for n in readers.get(value, ())]
        is_fused = (
            operation.name in FUSED
            and not any(value in results for value in operation.makes)
            and bool(found)
            and all(operations[n].name in FUSED for n in found)
            and (len(found) == 1 or operation.name not in COSTLY)
        )
        if is_fused:
            inner.update(dict.fromkeys(operation.makes, reads))
        elif found or any(value in results for value in operation.makes):
            kept.append(replace(operation, reads=reads))
    return kept


def _copy_overwritten(
    operations: Sequence[_Operation], pairs: Mapping[int, int], types: list[ValueType]
) -> list[_Operation]:
    """The operations, reading copies of arguments that are written over while others may still read them: that no operand of what writes
    depends on what else reads. `pairs`: result -> argument; the types of the copies are added to `types`.
    """
    makers, readers = _index(operations)
    before: list[int] = []  # of each operation, the set of those that it waits for, a bit for each
    for operation in operations:
        waited = [makers[value] for value in operation.reads if value in makers]
        before.append(reduce(lambda bits, n: bits | before[n] | 1 << n, waited, 0))
    copies: dict[int, int] = {}
    for result, argument in pairs.items():
        writer = makers.get(result)
        if writer is not None and any(n != writer and not before[writer] >> n & 1 for n in readers.get(argument, ())):
            copies[argument] = len(types)
            types.append(types[argument])
    made = [_Operation("copy", (argument,), (copy,)) for argument, copy in copies.items()]
    return made + [replace(one, reads=tuple(copies.get(value, value) for value in one.reads)) for one in operations]


def _index(operations: Sequence[_Operation]) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Value -> the operation that makes it, and value -> those that read it."""
    makers = {value: n for n, operation in enumerate(operations) for value in operation.makes}
    readers: dict[int, list[int]] = {}
    for n, operation in enumerate(operations):
        for value in operation.reads:
            readers.setdefault(value, []).append(n)
    return makers, readers


def _order_breadth_first(operations: Sequence[_Operation]) -> list[_Operation]:
    """Each as soon as all that were ready before it have run."""
    makers, readers = _index(operations)
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


@dataclass
class _Memory:
    """Buffers as they are made: `of` is that of each value. `last`: the moment of a value's last reader. `length`: all moments."""

    last: dict[int | None, int]
    length: int
    buffers: list[_Buffer] = field(default_factory=list)
    of: dict[int, int] = field(default_factory=dict)

    def add(self, buffer: _Buffer) -> int:
        self.buffers.append(buffer)
        return len(self.buffers) - 1


def _list_buffers(
    order: Sequence[_Operation], types: Sequence[ValueType], results: Collection[int], own: Mapping[int, int | None]
) -> _Memory:
    """What is held when. What an operation may write over that dies there is written over. `results` stay to the end; `own` is that of
    `_pack`.
    """
    starts = [0, *accumulate(operation.length for operation in order)]
    readers: dict[int, int] = {value: n for n, operation in enumerate(order) for value in operation.reads}
    memory = _Memory({value: starts[n + 1] - 1 for value, n in readers.items()}, starts[-1])
    memory.last.update(dict.fromkeys(results, starts[-1]))
    for n, operation in enumerate(order):
        ended = [x for x in operation.reads if readers[x] == n and x not in results and x in memory.of]
        dying = ended if operation.name in IN_PLACE else []
        for value in operation.makes:
            size, begin = count_bytes(types[value]), memory.last.get(own.get(value), -1)
            held = ((x, memory.buffers[memory.of[x]]) for x in dying)
            before = next((x for x, buffer in held if buffer.size == size and buffer.first > begin), None)
            if before is None:
                memory.of[value] = memory.add(_Buffer(size, starts[n], starts[n + 1] - 1))
            else:
                dying.remove(before)
                memory.of[value] = memory.of[before]
            buffer = memory.buffers[memory.of[value]]
            buffer.last = max(buffer.last, memory.last.get(value, starts[n]))
        memory.buffers += [buffer.shift(starts[n]) for buffer in operation.scratch]
    return memory


def _pack(
    order: Sequence[_Operation], types: Sequence[ValueType], results: Collection[int], own: Mapping[int, int | None]
) -> int:
    """The most bytes in use at once. Values in `own` have buffers that are not counted, and that others may use while they are free: of
    their own, or of the argument that they are written over.
    """
    memory = _list_buffers(order, types, results, own)
    rooms = {
        memory.of[value]: [_Buffer(0, 0, memory.last[argument])] if argument in memory.last else []
        for value, argument in own.items()
        if value in memory.of
    }
    counted = [buffer for n, buffer in enumerate(memory.buffers) if n not in rooms]
    lent = [[memory.buffers[n], *taken] for n, taken in rooms.items()]
    return _count_most(_find_homeless(counted, lent), memory.length)


def _find_homeless(buffers: Sequence[_Buffer], rooms: Iterable[list[_Buffer]]) -> list[_Buffer]:
    """The buffers that find no room: the largest looks first, and takes the smallest room, as large as its first buffer, that is free for
    its time.
    """
    rooms = sorted(rooms, key=lambda room: room[0].size)
    homeless: list[_Buffer] = []
    for buffer in sorted(buffers, key=lambda buffer: -buffer.size):
        free = (room for room in rooms if room[0].size >= buffer.size and not any(map(buffer.overlaps, room)))
        next(free, homeless).append(buffer)
    return homeless


def _count_most(buffers: Iterable[_Buffer], count: int) -> int:
    changes = [0] * (count + 2)
    for buffer in buffers:
        changes[buffer.first] += buffer.size
        changes[buffer.last + 1] -= buffer.size
    most = held = 0
    for change in changes:
        held += change
        most = max(most, held)
    return most
