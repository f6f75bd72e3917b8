"""Convert the equations of a step to the operations that XLA, JAX's compiler, runs on CPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod

import numpy as np

from tofu.jax.backend.fusion import REDUCING, Buffer, Operation, read_names
from tofu.jax.frontend.equations import Equation, Literal, Loop, Operand
from tofu.jax.frontend.value_types import ValueType

ALIASES = read_names("""
    bitcast_convert_type device_put expand_dims optimization_barrier random_unwrap random_wrap reshape squeeze
""")
"""Primitives that copy nothing, because result n uses the memory of operand n."""
ALONG = {"all_gather": "all_gather_dimension", "reduce_scatter": "scatter_dimension"}
"""For each collective, the parameter that names the dimension."""
WINDOW = 32
"""XLA reduces longer dimensions in windows of this length. It fuses nothing into such a reduction."""


def count_bytes(type_: ValueType) -> int:
    """Return the bytes of a value."""
    return int(prod(type_.shape) * type_.item_bytes)  # extents may be NumPy integers


class Aliases:
    """A table of values that share the memory of another value, such as reshaped arrays."""

    def __init__(self, items: Sequence[Equation | Loop]) -> None:
        self._operand_by_alias: dict[int, Operand] = {}
        self._matrix_products: set[int] = set()
        self._add_aliases(items)

    def _add_aliases(self, items: Sequence[Equation | Loop]) -> None:
        for item in items:
            if isinstance(item, Loop):
                self._add_aliases(item.equations)
            elif item.primitive.name == "dot_general" and not any(item.params["dimension_numbers"][1]):
                self._matrix_products.update(item.outputs)
            elif self.makes_aliases(item):
                self._operand_by_alias.update(zip(item.outputs, item.inputs, strict=True))

    def makes_aliases(self, equation: Equation) -> bool:
        """Return True if the results of a JAX operation share memory with its operands."""
        is_transpose = equation.primitive.name == "transpose" and equation.params["permutation"] == (1, 0)
        return equation.primitive.name in ALIASES or (is_transpose and equation.inputs[0] in self._matrix_products)

    def find(self, value: int) -> int:
        """Return the value whose memory `value` shares, or `value` itself."""
        while isinstance(operand := self._operand_by_alias.get(value), int):
            value = operand
        return value

    def find_all(self, operands: Iterable[Operand]) -> tuple[int, ...]:
        """Return the values whose memory the operands share, without repetitions."""
        return tuple(dict.fromkeys(self.find(x) for x in operands if isinstance(x, int)))


class Kernels:
    """A converter from the equations of a step to the operations of JAX's compiler."""

    def __init__(self, types: list[ValueType], aliases: Aliases) -> None:
        self._types, self._aliases = types, aliases
        self._transposed: dict[tuple[int, tuple[int, ...]], int] = {}  # value, order of dimensions -> transposed copy
        self._reordered: dict[tuple[int, int], int] = {}  # value, dimension -> copy with that dimension first
        self._zeros: set[int] = set()
        self._scatter_operands: dict[int, tuple[int, ...]] = {}  # result of a scatter into zeros -> the other operands

    def make(self, equation: Equation) -> Iterator[Operation]:
        """Yield the compiler's operations for an equation of the step."""
        name, reads = equation.primitive.name, self._aliases.find_all(equation.inputs)
        if (rule := RULES.get(name)) is not None:
            yield from rule(self, equation, reads)
        elif name in REDUCING and self._needs_windows(equation):
            yield Operation("reduce_window", reads, equation.outputs)
        else:
            yield Operation(name, reads, equation.outputs)

    def _add_value(self, type_: ValueType) -> int:
        self._types.append(type_)
        return len(self._types) - 1

    def _draw(self, equation: Equation, reads: tuple[int, ...]) -> Iterator[Operation]:
        results = equation.outputs
        word_type = ValueType(self._types[results[0]].shape, np.dtype(np.uint32))
        words = self._add_value(word_type), self._add_value(word_type)
        yield Operation("random_bits", reads, words, (Buffer(count_bytes(word_type), 0, 0),) * 2)
        yield Operation("or", words, results)

    def _multiply(self, equation: Equation, _: tuple[int, ...]) -> Iterator[Operation]:
        reads: list[int] = []
        for operand, contracted, batch in zip(equation.inputs, *equation.params["dimension_numbers"], strict=True):
            if not isinstance(operand, int):
                continue
            type_, value = self._types[operand], self._aliases.find(operand)
            free = [d for d in range(len(type_.shape)) if d not in (*contracted, *batch)]
            rows, columns = (contracted, free) if reads else (free, contracted)
            order = (*batch, *rows, *columns)
            if not _is_stored_as_matrices(type_, batch, rows, columns):
                key = value, order
                if key not in self._transposed:
                    self._transposed[key] = self._add_value(type_.with_shape(*(type_.shape[d] for d in order)))
                    yield Operation("transpose", (value,), (self._transposed[key],))
                value = self._transposed[key]
            reads.append(value)
        yield Operation("dot_general", tuple(dict.fromkeys(reads)), equation.outputs)

    def _scatter_windows(self, equation: Equation, _: tuple[int, ...]) -> Iterator[Operation]:
        source, operand = (self._aliases.find_all([x])[0] for x in equation.inputs)
        source_type, type_ = (self._types[x] for x in equation.inputs if isinstance(x, int))
        borders = equation.params["padding"]
        padded_type = type_.with_shape(*(low + n + high for n, (low, high) in zip(type_.shape, borders, strict=True)))
        is_padded = padded_type != type_
        padded = self._add_value(padded_type) if is_padded else operand
        scattered = self._add_value(padded_type) if is_padded else equation.outputs[0]
        if is_padded:
            yield Operation("pad", (operand,), (padded,))
        positions = prod(padded_type.shape) + prod(source_type.shape)
        scratch_bytes = 4 * len(padded_type.shape) * positions + count_bytes(source_type)
        yield Operation("select_and_scatter_add", (source, padded), (scattered,), (Buffer(scratch_bytes, 0, 0),))
        if is_padded:
            yield Operation("slice", (scattered,), equation.outputs)

    def _needs_windows(self, equation: Equation) -> bool:
        operand = equation.inputs[0]
        return isinstance(operand, int) and any(
            self._types[operand].shape[axis] > WINDOW for axis in equation.params["axes"]
        )

    def _gather(self, equation: Equation, reads: tuple[int, ...]) -> Iterator[Operation]:
        (value,), (result,) = reads, equation.outputs
        dimension = equation.params[ALONG[equation.primitive.name]]
        if prod(self._types[value].shape[:dimension]) <= 1:
            yield Operation(equation.primitive.name, reads, equation.outputs)
            return
        if (value, dimension) not in self._reordered:
            self._reordered[value, dimension] = self._add_value(self._types[value])
            yield Operation("transpose", reads, (self._reordered[value, dimension],))
        reordered = self._reordered[result, dimension] = self._add_value(self._types[result])
        yield Operation(equation.primitive.name, (self._reordered[value, dimension],), (reordered,))
        yield Operation("transpose", (reordered,), (result,))

    def _exchange(self, equation: Equation, reads: tuple[int, ...]) -> Iterator[Operation]:
        operand_type, result_type = self._types[reads[0]], self._types[equation.outputs[0]]
        is_scattered = prod(operand_type.shape[: equation.params["split_axis"]]) > 1  # elements are not contiguous
        scratch = (Buffer(max(map(count_bytes, (operand_type, result_type))), 0, 0),) if is_scattered else ()
        yield Operation("all_to_all", reads, equation.outputs, scratch)

    def _fill(self, equation: Equation, reads: tuple[int, ...]) -> Iterator[Operation]:
        (operand,) = equation.inputs
        if isinstance(operand, Literal) and operand.value == 0:
            self._zeros.update(equation.outputs)
        yield Operation("broadcast_in_dim", reads, equation.outputs)

    def _scatter(self, equation: Equation, reads: tuple[int, ...]) -> Iterator[Operation]:
        if reads and reads[0] in self._zeros:
            self._scatter_operands.update(dict.fromkeys(equation.outputs, reads[1:]))
        yield Operation("scatter-add", reads, equation.outputs)

    def _sum(self, equation: Equation, reads: tuple[int, ...]) -> Iterator[Operation]:
        """For `x + zeros.at[i].add(y)`, yield a scatter into x. Otherwise, yield an addition."""
        scatter = next((value for value in reads if value in self._scatter_operands), None)
        if scatter is None or len(reads) == 1:
            yield Operation("add", reads, equation.outputs)
        else:
            (addend,) = (value for value in reads if value != scatter)
            yield Operation("scatter-add", (addend, *self._scatter_operands[scatter]), equation.outputs)


RULES: Mapping[str, Callable[[Kernels, Equation, tuple[int, ...]], Iterator[Operation]]] = {
    "add": Kernels._sum,
    "add_any": Kernels._sum,
    "all_gather": Kernels._gather,
    "all_to_all": Kernels._exchange,
    "broadcast_in_dim": Kernels._fill,
    "dot_general": Kernels._multiply,
    "random_bits": Kernels._draw,
    "reduce_scatter": Kernels._gather,
    "scatter-add": Kernels._scatter,
    "select_and_scatter_add": Kernels._scatter_windows,
}


def _is_stored_as_matrices(type_: ValueType, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]) -> bool:
    batch, rows, columns = ([d for d in dimensions if type_.shape[d] > 1] for dimensions in (batch, rows, columns))
    order = [*batch, *rows, *columns]
    is_exchangeable = len(rows) == len(columns) == 1
    return order == sorted(order) or (is_exchangeable and [*batch, *columns, *rows] == sorted(order))
