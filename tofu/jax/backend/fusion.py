"""Predict which values XLA, JAX's compiler, stores in memory on CPUs.

XLA *fuses* an operation into its *readers*, the operations that read its result. The result is then not stored. XLA's
rules are:

- A cheap operation is computed again in each reader that it can be fused into. For other readers, its result is stored.
- A costly operation is computed only once.
- An operation with several large operands is computed only once if its result is stored anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from tofu.jax.frontend.value_types import ValueType


def read_names(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


CHEAP = read_names("""
    abs add add_any and axis_index broadcast_in_dim ceil clamp clz concatenate convert_element_type dynamic_slice eq floor ge gt
    integer_pow iota is_finite le loop_cell lt max min mul ne neg nextafter not or pad population_count reduce_precision rev round
    select_n shift_left shift_right_arithmetic shift_right_logical sign slice split square sub transpose xor
""")
"""Cheap operations, which XLA may fuse into several readers."""
COSTLY = read_names("""
    acos acosh asin asinh atan atan2 atanh cbrt cos cosh digamma div erf erf_inv erfc exp exp2 expm1 gather lgamma log log1p logistic
    pow rem rsqrt sin sinh sqrt tan tanh
""") | (REDUCING := read_names("reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor"))
"""Costly operations, which XLA fuses only if there is one reader, and this reader reads each element once."""
FUSED = CHEAP | COSTLY
REPEATING = read_names("broadcast_in_dim concatenate dynamic_slice loop_cell")
"""Operations that may read an element of an operand more than once."""
MOVING = REPEATING | REDUCING | read_names("gather pad rev slice split transpose")
"""Operations that read elements in another order than they write them."""
FILLING = read_names("broadcast_in_dim iota")
"""Operations whose results never count as large operands, because readers need not load them from memory."""


@dataclass(eq=False)
class Buffer:
    """A range of memory, in use from time `first` to time `last`. It may overwrite the buffers in `over`."""

    size: int
    first: int
    last: int
    over: tuple[Buffer, ...] = ()

    @cached_property
    def moments(self) -> int:
        """The times at which the buffer is in use, as a number with bit t for time t."""
        return (1 << self.last + 1) - (1 << self.first)

    def overlaps(self, other: Buffer) -> bool:
        """Return True if both buffers are in use at the same time."""
        if self.first > other.last or other.first > self.last:
            return False
        return not (self._follows(other) or other._follows(self))

    def _follows(self, other: Buffer) -> bool:
        return other in self.over and other.last == self.first

    def shift(self, moments: int) -> Buffer:
        """Return a copy whose times are `moments` later."""
        return Buffer(self.size, self.first + moments, self.last + moments)


@dataclass(frozen=True)
class Operation:
    """An operation or a loop. It reads the values `reads` and computes the values `makes`.

    Attributes
    ----------
    scratch
        Buffers that are in use while the operation runs.
    length
        Duration: 1 for an operation, more for a loop.
    moved
        Values that the operation must not overwrite while it reads them.
    """

    name: str
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    scratch: tuple[Buffer, ...] = ()
    length: int = 1
    moved: frozenset[int] = frozenset()


def index(operations: Sequence[Operation]) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Return the operation that computes each value, and the operations that read each value."""
    makers = {value: n for n, operation in enumerate(operations) for value in operation.makes}
    readers: dict[int, list[int]] = {}
    for n, operation in enumerate(operations):
        for value in operation.reads:
            readers.setdefault(value, []).append(n)
    return makers, readers


def fuse(operations: Iterable[Operation], results: AbstractSet[int], types: Sequence[ValueType]) -> list[Operation]:
    """Fuse operations as JAX's compiler does."""
    fusion = _Fusion(list(operations), results, types)
    stored_operations: list[Operation] = []
    fused_operations: dict[int, Operation] = {}  # result -> operation that reads values in memory only
    for n, operation in enumerate(fusion.operations):
        joined = _join(operation, fused_operations) if operation.name in FUSED else operation
        if fusion.roots[n].keys() - {n}:
            fused_operations.update(dict.fromkeys(operation.makes, joined))
        if n in fusion.roots[n]:
            stored_operations.append(joined)
    return stored_operations


def _join(operation: Operation, fused_operations: Mapping[int, Operation]) -> Operation:
    pairs = [(value, fused_operations.get(value)) for value in operation.reads]
    reads = dict.fromkeys(read for value, fused in pairs for read in (fused.reads if fused else (value,)))
    moved = reads if operation.name in MOVING else [value for _, fused in pairs if fused for value in fused.moved]
    return replace(operation, reads=tuple(reads), moved=frozenset(moved))


class _Fusion:
    """The operations that JAX's compiler XLA fuses.

    A *root* is an operation whose results are stored in memory. `roots[n]` has the roots into which XLA fuses operation
    n. `roots[n][root]` is True if the root reads an element of n's result more than once.
    """

    def __init__(self, operations: list[Operation], results: AbstractSet[int], types: Sequence[ValueType]) -> None:
        self.operations, self.results, self.types = operations, results, types
        self.makers, readers = index(operations)
        self.readers = [sorted({n for x in operation.makes for n in readers.get(x, ())}) for operation in operations]
        computed_once = self._find_computed_once()
        self.roots: list[dict[int, bool]] = [{} for _ in operations]
        for n in reversed(range(len(operations))):
            self.roots[n] = self._find_roots(n, n in computed_once)

    def _find_roots(self, n: int, is_computed_once: bool) -> dict[int, bool]:
        operation = self.operations[n]
        roots: dict[int, bool] = {}
        for reader in self.readers[n]:
            for root, is_repeated in self.roots[reader].items():
                roots[root] = roots.get(root, False) or is_repeated or self._reads_repeatedly(n, reader)
        is_result = not self.results.isdisjoint(operation.makes)
        if not roots and not is_result:
            return {}
        fusible_roots = {
            root: is_repeated for root, is_repeated in roots.items() if self.operations[root].name in FUSED
        }
        has_several_uses = is_result or len(roots) > 1 or any(roots.values())
        if is_computed_once or operation.name not in FUSED or (has_several_uses and operation.name in COSTLY):
            return {n: False}
        return {**fusible_roots, **({n: False} if is_result or len(fusible_roots) < len(roots) else {})}

    def _reads_repeatedly(self, n: int, reader: int) -> bool:
        results, operands = self.operations[reader].makes, self.operations[n].makes
        is_repeating = self.operations[reader].name in REPEATING
        return is_repeating and self._count_elements(results) > self._count_elements(operands)

    def _count_elements(self, values: Iterable[int]) -> int:
        return sum(prod(self.types[value].shape) for value in values)

    def _is_fused(self, n: int, reader: int) -> bool:
        if not FUSED.issuperset((self.operations[n].name, self.operations[reader].name)):
            return False
        return self.operations[n].name not in COSTLY or not self._reads_repeatedly(n, reader)

    def _find_computed_once(self) -> set[int]:
        computed_once: set[int] = set()
        count = len(self.operations)
        all_readers = [0] * count  # bit m of all_readers[n]: m reads n's result, directly or not
        unfused_readers = [0] * count  # of these, the readers to which a path is not fused
        for n in reversed(range(count)):
            for reader in self.readers[n]:
                readers_behind = all_readers[reader] | 1 << reader
                all_readers[n] |= readers_behind
                unfused_readers[n] |= unfused_readers[reader] if self._is_fused(n, reader) else readers_behind
            is_stored = not self.results.isdisjoint(self.operations[n].makes)
            is_stored |= any(unfused_readers[n] >> reader & 1 for reader in self.readers[n])
            if is_stored and self._has_large_operands(n):
                computed_once.add(n)
                unfused_readers[n] = all_readers[n]
        return computed_once

    def _has_large_operands(self, n: int) -> bool:
        operation = self.operations[n]
        rank = max(_count_dimensions(self.types[value]) for value in operation.makes)
        large_operands = [
            value
            for value in operation.reads
            if not (value in self.makers and self.operations[self.makers[value]].name in FILLING)
            and _count_dimensions(self.types[value]) >= rank
        ]
        return len(large_operands) > 1 and self._count_elements(operation.reads) > self._count_elements(operation.makes)


def _count_dimensions(type_: ValueType) -> int:
    return sum(extent > 1 for extent in type_.shape)
