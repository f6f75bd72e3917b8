"""A plan as sharding constraints: the program is that of one device, XLA's partitioner divides it as the plan says.

What is moved, and how, is XLA's to choose: it may move more than the plan counts, or, where it sees several equations at a time, less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding

from tofu.analysis import Row
from tofu.errors import UnsupportedError
from tofu.jax.backend.collectives import find_chain
from tofu.jax.backend.local_calls import as_bits, evaluate, find_fill, read_bits
from tofu.jax.backend.places import Layout
from tofu.jax.backend.spmd import SpmdProgram, divide_body
from tofu.jax.frontend.equations import LOOP_CELL, LOOP_STACK, Equation, Literal, Loop, Operand, Summed, as_type
from tofu.jax.frontend.versions import scatters_sums, within_mesh
from tofu.search.choices import REPLICATED

Shape: TypeAlias = tuple[int, ...]


class GspmdProgram(SpmdProgram):
    """A plan as XLA's partitioner runs it. `run`, what a worker does, is that of `shard_map`: memory is predicted by it."""

    def function(self, mesh: Mesh) -> Callable[..., list[Any]]:
        """As of the base class. Raises UnsupportedError where XLA's own collectives are known to be wrong."""
        if not scatters_sums(list(mesh.devices.flat)):
            raise UnsupportedError(
                'backend="gspmd" leaves collectives to XLA, whose reduce-scatter between processes on CPUs gives wrong sums now and then. '
                'Leave it out: backend="shard_map" does without.'
            )

        def run(*leaves: Any) -> list[Any]:
            return list(map(as_type, _Whole(self, mesh).run(leaves), self.step.result_types))

        return within_mesh(run, mesh)


@dataclass(frozen=True)
class _Whole:
    """The step over whole tensors, each of which XLA is told the layout of: where an operator reads it, writes it, and where it lies."""

    program: GspmdProgram
    mesh: Mesh
    values: dict[int, Any] = field(default_factory=dict)
    sums: dict[int, Any] = field(default_factory=dict)
    rows: dict[int, Any] = field(default_factory=dict)

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """The results."""
        step = self.program.step
        self.values.update(zip(self.program.given, leaves, strict=True))
        self._run_all(step.equations)
        layouts = self.program.result_layouts()
        return [self._find_result(operand, layout) for operand, layout in zip(step.outputs, layouts, strict=True)]

    def _find_result(self, operand: Operand, layout: Layout) -> Any:
        if isinstance(operand, Literal):
            return jnp.asarray(operand.value)
        return self._lay_anew(self.values[operand], self._layout(operand), layout)

    def _lay(self, value: Any, layout: Layout | None) -> Any:
        """A value in a layout; without one where XLA has it."""
        if layout is None:
            return value
        return lax.with_sharding_constraint(value, NamedSharding(self.mesh, self.program.spec(layout)))

    def _lay_anew(self, value: Any, now: Layout | None, layout: Layout | None) -> Any:
        """A value in another layout than it has now; what is no plain shard is left to XLA.

        One axis of the mesh changes at a time: XLA does not see the way itself, makes the whole tensor on every worker, and in the version
        of JAX 0.12 ends the process for some layouts, of unequal axes.
        """
        if layout is None or now is None:
            return self._lay(value, layout)
        chain = find_chain(now, layout, self.program.workers.factors)
        if chain is None:
            return self._lay(self._lay(value, (REPLICATED,) * len(layout)), layout)
        steps = list(now)
        for _, step, _, dimension in chain:
            steps[step] = dimension
            value = self._lay(value, tuple(steps))
        return value

    def _layout(self, number: int) -> Layout | None:
        places = self.program.places
        return places.tensor(self.program.native.tensor_of[number]).layout

    def _read(self, operand: Operand) -> Any:
        return operand.value if isinstance(operand, Literal) else self.values[operand]

    def _run_all(self, items: Sequence[Equation | Loop]) -> None:
        for item in items:
            if isinstance(item, Loop):
                self._run_loop(item)
            else:
                self._run_equation(item)

    def _read_all(self, equation: Equation) -> list[Any]:
        """The operands, as the parts of the operator read them."""
        layouts = self._find_layouts(equation)
        slot, operands = 0, []
        for operand in equation.inputs:
            value = self._read(operand)
            if not isinstance(operand, Literal):
                value = self._lay_anew(value, self._layout(operand), layouts[slot])
                slot += 1
                if equation.checkpoint is not None:
                    value = lax.optimization_barrier(value)  # else XLA finds that it was computed before
            operands.append(value)
        return operands

    def _write(self, equation: Equation, results: Sequence[Any]) -> None:
        layouts = self._find_layouts(equation)[-len(equation.outputs) :]
        for number, result, written in zip(equation.outputs, results, layouts, strict=True):
            value = self._lay_anew(self._lay(result, written), written, self._layout(number))
            self.values[number] = self.program.keep_one(number, value)

    def _find_layouts(self, equation: Equation) -> list[Layout | None]:
        """Those in which the operator's parts read its operands, literals aside, and write its results, partial sums added up."""
        operator, places = self.program.number_of(equation), self.program.places
        slots = range(sum(not isinstance(operand, Literal) for operand in equation.inputs))
        layouts = [places.read(operator, slot).layout for slot in slots]
        layouts += [places.written(operator, slot).layout for slot in range(len(equation.outputs))]
        rule, node = DIVIDES.get(equation.primitive.name), places.graph.operators[operator]
        shapes = [places.graph.tensors[number].shape for number in (*node.inputs, *node.outputs)]
        divides = rule(equation, layouts, shapes) if rule else None not in layouts or self._keeps_places(operator)
        return layouts if divides else [(REPLICATED,) * len(self.program.workers.factors)] * len(layouts)

    def _keeps_places(self, operator: int) -> bool:
        """Whether each position of an axis is one of a whole dimension, as in arithmetic, products, sums and transposes. Of what moves
        cells otherwise XLA's partitioner is known to give other numbers where it is left to choose a layout itself.
        """
        places = self.program.places
        access, node = places.access(operator), places.graph.operators[operator]
        if node.origin.primitive in (LOOP_CELL, LOOP_STACK):
            return True
        rows = [*(one.rows for one in access.inputs), *(one.rows for one in access.outputs)]
        shapes = [places.graph.tensors[number].shape for number in (*node.inputs, *node.outputs)]
        plain = {Row(((axis, 1),), 0, 1): extent for axis, extent in enumerate(access.extents)}
        pairs = (pair for each in zip(rows, shapes, strict=True) for pair in zip(*each, strict=True))
        return all(extent in (1, plain.get(row)) for row, extent in pairs)

    def _run_equation(self, equation: Equation) -> None:
        rule = RULES.get(equation.primitive.name, evaluate)
        results = rule(equation, self._read_all(equation))
        if equation.loops_summed:
            (number,), (result,) = equation.outputs, results
            self.sums[number] += result.astype(self.sums[number].dtype)
        else:
            self._write(equation, results)

    def _run_loop(self, loop: Loop) -> None:
        cells, stacks, rest = divide_body(loop)
        sums = list(loop.walk_sums())
        rows, totals = ([one.number for one in sums if one.is_row == is_row] for is_row in (True, False))

        def run_body(state: tuple[list[Any], list[Any]], taken: Any) -> Any:
            inside = _Whole(self.program, self.mesh, dict(self.values))
            inside.values.update(zip((carry.value for carry in loop.carries), state[0], strict=True))
            inside.sums.update(zip((*totals, *rows), (*state[1], *taken[1]), strict=True))
            for cell, value in zip(cells, taken[0], strict=True):
                inside._write(cell, [value])
            for number, value in zip(loop.rows, taken[2], strict=True):
                inside._write(self.program.summing[number], [value])
            inside._run_all(rest)
            carried = [inside._carry(carry.value, carry.following) for carry in loop.carries]
            made = [inside._read_all(stack)[0] for stack in stacks]
            return (carried, [inside.sums[n] for n in totals]), (made, [inside.sums[n] for n in rows])

        begin = [self._carry(carry.value, carry.first) for carry in loop.carries]
        added = [self._begin_sum(one) if one.is_last else self.sums[one.number] for one in sums if not one.is_row]
        scanned = [self._read_all(cell)[0] for cell in cells]
        taken = scanned, [self.sums[n] for n in rows], [self.rows[n] for n in loop.rows]
        (end, added), (made, grown) = lax.scan(run_body, (begin, added), taken, loop.length, loop.reverse)
        self.sums.update(zip((*totals, *rows), (*added, *grown), strict=True))
        for one in sums:
            if one.is_last and not one.rows:
                self._write(one.equation, [self.sums.pop(one.number)])
            elif one.is_last:
                self.rows[one.number] = self.sums.pop(one.number)
        self.values.update(zip((carry.last for carry in loop.carries), end, strict=True))
        for stack, whole in zip(stacks, made, strict=True):
            self._write(stack, [whole])

    def _begin_sum(self, one: Summed) -> Any:
        type_ = self.program.step.types[one.number]
        return jnp.zeros((*one.rows, *type_.shape), type_.dtype)

    def _carry(self, value: int, operand: Operand) -> Any:
        """What a carry becomes, in its layout."""
        type_ = self.program.step.types[value]
        if isinstance(operand, Literal):
            return self._lay(jnp.full(type_.shape, operand.value, type_.dtype), self._layout(value))
        return self._lay_anew(as_type(self._read(operand), type_), self._layout(operand), self._layout(value))


def _divides_convolution(equation: Equation, layouts: Sequence[Layout | None], _: Sequence[Shape]) -> bool:
    """Whether XLA's partitioner may divide a convolution whose operands and result have these layouts.

    Where some axis of the mesh splits nothing of one of them, or a dimension that windows move along is split, it is known to add the
    gradient of the filter up several times over, in JAX 0.6 as in 0.12. One in groups is divided along its batch alone, and not where the
    batch has the groups: it is known to read other groups where a window is as large as the image, and to make unequal ones.
    """
    params = equation.params
    numbers = params["dimension_numbers"]
    # Of batch or results, features, positions, in this order: the first that are not to be split, of each operand and the result.
    whole = [2, 2, 2]
    if params["feature_group_count"] > 1:
        whole = [1, 0, 1]
    if params["batch_group_count"] > 1:
        whole = [0, 0, 0]
    return all(
        layout is not None
        and (REPLICATED not in layout or set(layout) == {REPLICATED})
        and not set(layout).intersection(dimensions[first:])
        for layout, dimensions, first in zip(layouts, numbers, whole, strict=True)
    )


def _divides_padding(equation: Equation, layouts: Sequence[Layout | None], _: Sequence[Shape]) -> bool:
    """Whether XLA's partitioner may divide a `pad` whose operand and result, the first and the last, have these layouts.

    Along a dimension of which cells are cut off, or in which there is padding between cells, it is known to read wrong ones, and to end the
    process where there is both.
    """
    config = equation.params["padding_config"]
    touched = {d for d, (low, high, between) in enumerate(config) if min(low, high, -between) < 0}
    return None not in layouts and not any(touched.intersection(layout or ()) for layout in layouts)


def _divides_scatter(equation: Equation, layouts: Sequence[Layout | None], shapes: Sequence[Shape]) -> bool:
    """Whether XLA's partitioner may divide a scatter: not where it has to choose a layout itself, and not one of a single slice along a
    dimension that is looked up. Of that XLA makes a dynamic slice, of what is most often a slice of the whole: it joins the two, and leaves
    out that the first one lies inside.
    """
    if None in layouts:
        return False
    numbers, updates = equation.params["dimension_numbers"], shapes[-2]
    slices = prod(n for d, n in enumerate(updates) if d not in numbers.update_window_dims)
    return slices > 1 or not set(layouts[0] or ()).intersection(numbers.scatter_dims_to_operand_dims)


def _divides_largest(equation: Equation, layouts: Sequence[Layout | None], shapes: Sequence[Shape]) -> bool:
    """The same of a scatter that keeps the largest or smallest of what is written: not where devices have some of that each."""
    split = set(layouts[-2] or ()) - {REPLICATED, *equation.params["dimension_numbers"].update_window_dims}
    return not split and _divides_scatter(equation, layouts, shapes)


def _find_extreme(equation: Equation, operands: Sequence[Any]) -> list[Any]:
    """The largest or the smallest of cells, NaN where one of them is: XLA's own maximum over devices leaves NaN out on CPUs."""
    (operand,), (found,) = operands, evaluate(equation, operands)
    if not jnp.issubdtype(found.dtype, jnp.floating):
        return [found]
    return [jnp.where(jnp.isnan(operand).any(equation.params["axes"]), jnp.full_like(found, jnp.nan), found)]


def _look_up(equation: Equation, operands: Sequence[Any]) -> list[Any]:
    """A gather of numbers as one of their bits: where the table lies in parts XLA may add up what devices find."""
    table, indices = operands
    bits = as_bits(table)
    if bits is table:
        return evaluate(equation, operands)
    fill = np.asarray(find_fill(equation.params["fill_value"], table.dtype), table.dtype).view(bits.dtype)
    of_bits = replace(equation, params={**equation.params, "fill_value": int(fill)})
    return [read_bits(found, table.dtype) for found in evaluate(of_bits, [bits, indices])]


RULES: dict[str, Callable[[Equation, Sequence[Any]], list[Any]]] = {
    "gather": _look_up,
    "reduce_max": _find_extreme,
    "reduce_min": _find_extreme,
}
"""What devices run in the place of a primitive that XLA's partitioner divides into other numbers."""
SCATTERS = ("scatter", "scatter-add", "scatter-mul")
DIVIDES: dict[str, Callable[[Equation, Sequence[Layout | None], Sequence[Shape]], bool]] = {
    "conv_general_dilated": _divides_convolution,
    "pad": _divides_padding,
    **dict.fromkeys(SCATTERS, _divides_scatter),
    **dict.fromkeys(("scatter-max", "scatter-min"), _divides_largest),
}
"""Primitives that XLA's partitioner divides wrongly for some layouts, and whether it may for given ones. Devices compute others whole."""
