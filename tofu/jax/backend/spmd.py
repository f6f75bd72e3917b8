"""The program of a plan, the same for every worker: each computes its part of every equation, and each fetch is a collective.

A region that several readers need is fetched once; what the body of a loop reads from outside is fetched before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tofu.jax.backend.collectives import Workers
from tofu.jax.backend.local_calls import make_call, read_bits
from tofu.jax.backend.moving import Moving
from tofu.jax.backend.places import Layout, Place, Places
from tofu.jax.backend.uneven import UnevenSharding, find_sharding
from tofu.jax.frontend.compared import find_compared
from tofu.jax.frontend.equations import (
    LOOP_CELL,
    LOOP_STACK,
    Equation,
    Literal,
    Loop,
    Operand,
    Summed,
    as_type,
)
from tofu.jax.frontend.read_step import Native
from tofu.jax.frontend.versions import scatters_sums, shard_map, vary
from tofu.search import Choices, Problem
from tofu.search.choices import REPLICATED


@dataclass
class _Scope:
    """What a worker has, in the step or in the body of a loop: shards of values, and the regions of them that it has fetched."""

    values: dict[int, Any]
    fetched: dict[Any, Any] = field(default_factory=dict)
    sums: dict[int, Any] = field(default_factory=dict)
    """Of what loops add up, what the worker has so far, as its copies of the operators compute it."""
    rows: dict[int, Any] = field(default_factory=dict)
    """Such sums, of each step of a loop its own, that a loop behind reads."""

    def fetch(self, key: Any, make: Callable[[], Any]) -> Any:
        """What was fetched before, or is now."""
        if key not in self.fetched:
            self.fetched[key] = make()
        return self.fetched[key]

    def enter(self) -> _Scope:
        """The same within a loop, where what is added does not come out."""
        return _Scope(dict(self.values), dict(self.fetched))


class SpmdProgram:
    """A plan as JAX runs it.

    `given` numbers the values that the program takes: the leaves of the arguments, then the constants of the step. Constants are
    operands, so that each device holds its shard of them alone. `shardings` are those of `given`, `result_shardings` those of the
    results. An array in overlapping shards is passed and returned as these shards, side by side in one array (`uneven.py`).
    """

    def __init__(self, native: Native, problem: Problem, choices: Choices) -> None:
        self.native, self.step = native, native.step
        self.given = (*self.step.inputs, *self.step.constants)
        self.places = Places(problem, choices)
        self.workers = Workers(problem.factors)
        self.compared = find_compared(self.step)
        self._number_of = {id(operator.origin): n for n, operator in enumerate(problem.graph.operators)}
        self.moving = Moving(self.step, self.places, self._number_of, native.tensor_of)
        self.summing = {one.outputs[0]: one for one in self.step.walk() if one.loops_summed}

    def make_mesh(self, devices: Sequence[Any]) -> Mesh:
        """The devices with an axis for each step of the plan."""
        return Mesh(np.array(devices, object).reshape(self.workers.factors), self.workers.axis_names)

    def shardings(self, mesh: Mesh) -> list[NamedSharding]:
        """Return the shardings of what the program takes."""
        return [NamedSharding(mesh, self.spec(self._layout(number))) for number in self.given]

    def result_shardings(self, mesh: Mesh) -> list[NamedSharding]:
        """Of the results."""
        return [NamedSharding(mesh, self.spec(layout)) for layout in self.result_layouts()]

    def compile(self, mesh: Mesh, donated: Sequence[int] = ()) -> Any:
        """Return the jitted function of what the program takes."""
        ins, outs = self.shardings(mesh), self.result_shardings(mesh)
        return jax.jit(self.function(mesh), in_shardings=tuple(ins), out_shardings=outs, donate_argnums=tuple(donated))

    def function(self, mesh: Mesh) -> Callable[..., list[Any]]:
        """Return the function from whole values that it takes to whole results, to be jitted with `shardings`, `result_shardings`."""
        self.workers.scatters_sums = scatters_sums(list(mesh.devices.flat))  # before anything is traced
        mapped = self.over(mesh)

        def run(*leaves: Any) -> list[Any]:
            return list(map(as_type, mapped(*leaves), self.step.result_types))

        return run

    def over(self, mesh: Mesh, is_checked: bool = False) -> Any:
        """What all workers do. With `is_checked` JAX raises TypeError or ValueError where it cannot show that replicas are alike."""
        specs = tuple(s.spec for s in self.shardings(mesh)), [s.spec for s in self.result_shardings(mesh)]
        return shard_map(self.run, mesh, *specs, is_checked=is_checked)

    def check_replicas(self, mesh: Mesh) -> bool:
        """Whether JAX shows, of what the plan has whole on several devices, that it is the same there. The program is traced for that,
        and runs unchecked: where JAX makes loops of a primitive as it lowers it, its check fails on them.
        """
        try:
            jax.eval_shape(self.over(mesh, is_checked=True), *self.argument_structs(mesh))
        except (TypeError, ValueError):
            return False
        return True

    def run(self, *shards: Any) -> list[Any]:
        """Compute a worker's shards of the results from its shards of what the program takes."""
        scope = _Scope(dict(zip(self.given, shards, strict=True)))
        with self.workers.remember():
            self._run_all(self.step.equations, scope)
            return [
                jnp.asarray(x.value)
                if isinstance(x, Literal)
                else self._fetch(x, self._tensor(self._lies_like(n, x)), scope)
                for n, x in enumerate(self.step.outputs)
            ]

    def number_of(self, equation: Equation) -> int:
        """The operator that an equation is."""
        return self._number_of[id(equation)]

    def uneven_arguments(self, mesh: Mesh) -> dict[int, UnevenSharding]:
        """Return, by position in `given`, the shardings of what is passed in overlapping shards."""
        return self._find_uneven(dict(enumerate(self.given)), self.shardings(mesh))

    def uneven_results(self, mesh: Mesh) -> dict[int, UnevenSharding]:
        """By position: the results that do."""
        like = {n: self._lies_like(n, x) for n, x in enumerate(self.step.outputs) if isinstance(x, int)}
        return self._find_uneven(like, self.result_shardings(mesh))

    def _find_uneven(self, numbers: Mapping[int, int], shardings: Sequence[NamedSharding]) -> dict[int, UnevenSharding]:
        found = {
            position: find_sharding(
                self._tensor(number),
                self._layout(number),
                self.workers.factors,
                self.step.types[number].shape,
                shardings[position],
            )
            for position, number in numbers.items()
        }
        return {position: one for position, one in found.items() if one is not None}

    def argument_structs(self, mesh: Mesh) -> list[jax.ShapeDtypeStruct]:
        """Return the shapes and types of what the function takes."""
        types, uneven = [self.step.types[number] for number in self.given], self.uneven_arguments(mesh)
        shapes = (uneven[n].joined_shape if n in uneven else type_.shape for n, type_ in enumerate(types))
        return [jax.ShapeDtypeStruct(shape, type_.dtype) for shape, type_ in zip(shapes, types, strict=True)]

    def result_layouts(self) -> list[Layout]:
        """Of the results; state comes out as it goes in."""
        whole = (REPLICATED,) * len(self.workers.factors)
        return [
            self._layout(self._lies_like(n, x)) if isinstance(x, int) else whole
            for n, x in enumerate(self.step.outputs)
        ]

    def _lies_like(self, position: int, number: int) -> int:
        """The value whose place a result has: of the next state that is the argument, whatever else the result is returned as."""
        own = self.step.inputs[position] if position < len(self.step.inputs) else number
        following, tensor_of = self.places.graph.next_values, self.native.tensor_of
        return own if following.get(tensor_of[own]) == tensor_of[number] else number

    def _layout(self, number: int) -> Layout:
        return self.places.layout(self.native.tensor_of[number])

    def _tensor(self, number: int) -> Place:
        return self.places.tensor(self.native.tensor_of[number])

    def spec(self, layout: Layout) -> PartitionSpec:
        """A layout as JAX has it."""
        names: dict[int, list[str]] = {}
        for name, dimension in zip(self.workers.axis_names, layout, strict=True):
            names.setdefault(dimension, []).append(name)
        split = [tuple(names.get(d, ())) or None for d in range(max(names, default=REPLICATED) + 1)]
        return PartitionSpec(*split)

    def _run_all(self, items: Sequence[Equation | Loop], scope: _Scope) -> None:
        for item in items:
            if isinstance(item, Loop):
                self._run_loop(item, scope)
            else:
                self._run_equation(item, scope)

    def _fetch(self, number: int, wanted: Place, scope: _Scope, fill: float = 0.0) -> Any:
        """The region of a value that this worker needs."""
        held = self._tensor(number)
        return scope.fetch(
            (number, wanted.boxes, fill), lambda: self.workers.move(scope.values[number], held, wanted, fill)
        )

    def _read(self, equation: Equation, operator: int, scope: _Scope) -> list[Any]:
        """The operands of a worker's copy."""
        access, axes = self.places.access(operator), self.places.axes(operator)
        operands, slot = [], 0
        for operand in equation.inputs:
            if isinstance(operand, Literal):
                operands.append(operand.value)
                continue
            read = access.inputs[slot]
            value = self._fetch(operand, self.places.read(operator, slot), scope, read.fill)
            if equation.checkpoint is not None:
                value = lax.optimization_barrier(value)  # else XLA finds that it was computed before
            added = [step for step, axis in enumerate(axes) if axis in read.addend_axes]
            if added:
                is_first = sum(lax.axis_index(self.workers.axis_names[step]) for step in added) == 0
                value = jnp.where(is_first, value, jnp.zeros_like(value))
            operands.append(value)
            slot += 1
        return operands

    def _run_equation(self, equation: Equation, scope: _Scope) -> None:
        operator = self.number_of(equation)
        if self.moving.has(operator):
            self._move_cells(equation, operator, scope)
            return
        call = make_call(equation, operator, self.places, self.workers)
        results = call.run(self._read(equation, operator, scope))
        if equation.loops_summed:
            (number,), (result,) = equation.outputs, results
            scope.sums[number] += result.astype(scope.sums[number].dtype)
            return
        for slot, (number, result) in enumerate(zip(equation.outputs, results, strict=True)):
            value = self.workers.settle(result, self.places, operator, slot)
            scope.values[number] = self.keep_one(number, read_bits(value, self.step.types[number].dtype))

    def keep_one(self, number: int, value: Any) -> Any:
        """A value, which XLA is kept from computing once more where the step compares it with its maximum."""
        return lax.optimization_barrier(value) if number in self.compared else value

    def _move_cells(self, equation: Equation, operator: int, scope: _Scope) -> None:
        """An equation that only moves cells. What another such equation moved of the same cells to the same workers is there."""
        is_staged = self.moving.is_staged(operator)
        for slot, number in enumerate(equation.outputs):
            out = None
            for one in self.moving.list_moves(equation, operator, slot, is_staged):

                def once(sent: Any, send: Callable[[], Any], value: int = one.value) -> Any:
                    return scope.fetch((value, *sent), send)

                cells, fill, distance = one.widen(scope.values[one.value]), one.given.fill, one.distance
                out = self.workers.exchange(
                    cells, one.held, one.lies, one.pieces, fill=fill, distance=distance, into=out, once=once
                )
            assert out is not None, self.places.graph.operators[operator]
            out = self.moving.squeeze(operator, slot, out)
            scope.values[number] = self.workers.settle(out, self.places, operator, slot) if is_staged else out

    def _run_loop(self, loop: Loop, scope: _Scope) -> None:
        self._fetch_from_outside(loop.equations, scope)
        cells, stacks, rest = divide_body(loop)
        sums = list(loop.walk_sums())
        rows, totals = ([one.number for one in sums if one.is_row == is_row] for is_row in (True, False))

        def run_body(state: tuple[list[Any], list[Any]], taken: Any) -> Any:
            inside = scope.enter()
            inside.values.update(zip((carry.value for carry in loop.carries), state[0], strict=True))
            inside.sums.update(zip((*totals, *rows), (*state[1], *taken[1]), strict=True))
            with self.workers.remember():
                for cell, value in zip(cells, taken[0], strict=True):
                    self._settle(cell, value, inside)
                for number, value in zip(loop.rows, taken[2], strict=True):
                    self._settle(self.summing[number], value, inside)
                self._run_all(rest, inside)
                made = [self._read(stack, self.number_of(stack), inside)[0] for stack in stacks]
                carried = [self._carry(carry.value, carry.following, inside) for carry in loop.carries]
                return (carried, [inside.sums[n] for n in totals]), (made, [inside.sums[n] for n in rows])

        begin = [self._carry(carry.value, carry.first, scope) for carry in loop.carries]
        added = [self._begin_sum(one) if one.is_last else scope.sums[one.number] for one in sums if not one.is_row]
        scanned = [self._read(cell, self.number_of(cell), scope)[0] for cell in cells]
        taken = scanned, [scope.sums[n] for n in rows], [scope.rows[n] for n in loop.rows]
        (end, added), (made, grown) = lax.scan(run_body, (begin, added), taken, loop.length, loop.reverse)
        scope.sums.update(zip((*totals, *rows), (*added, *grown), strict=True))
        for one in sums:
            if one.is_last and not one.rows:
                self._settle(one.equation, scope.sums.pop(one.number), scope)
            elif one.is_last:
                scope.rows[one.number] = scope.sums.pop(one.number)
        scope.values.update(zip((carry.last for carry in loop.carries), end, strict=True))
        for stack, whole in zip(stacks, made, strict=True):
            self._settle(stack, whole, scope)

    def _settle(self, equation: Equation, result: Any, scope: _Scope) -> None:
        """A value of what the workers' copies of an equation have computed of it."""
        (number,) = equation.outputs
        value = self.workers.settle(result, self.places, self.number_of(equation), 0)
        scope.values[number] = self.keep_one(number, value)

    def _begin_sum(self, one: Summed) -> Any:
        """What a worker adds up its own results of an equation to."""
        operator, dtype = self.number_of(one.equation), self.step.types[one.number].dtype
        zeros = jnp.zeros((*one.rows, *self.places.written(operator, 0).shape), dtype)
        return vary(zeros, self._list_split(self.places.axes(operator)))

    def _carry(self, value: int, operand: Operand, scope: _Scope) -> Any:
        """What a carry becomes, in its layout."""
        if isinstance(operand, Literal):
            carried = jnp.full(self._tensor(value).shape, operand.value, self.step.types[value].dtype)
        else:  # in the carry's own place: the operand, an argument say, may not lie in any such layout
            carried = self._fetch(operand, self._tensor(value), scope)
        return vary(carried, self._list_split(self._layout(value)))

    def _list_split(self, choices: Sequence[int | str]) -> list[str]:
        """The axes of the mesh along which workers have different parts."""
        return [name for name, one in zip(self.workers.axis_names, choices, strict=True) if one != REPLICATED]

    def _fetch_from_outside(self, items: Sequence[Equation | Loop], scope: _Scope) -> None:
        """Fetches what the body of a loop reads that is there before the loop."""
        for item in items:
            if isinstance(item, Loop):
                self._fetch_from_outside(item.equations, scope)
                continue
            operator = self.number_of(item)
            read = self.places.access(operator).inputs
            for slot, number in enumerate(x for x in item.inputs if not isinstance(x, Literal)):
                if number in scope.values:
                    self._fetch(number, self.places.read(operator, slot), scope, read[slot].fill)


def divide_body(loop: Loop) -> tuple[list[Equation], list[Equation], list[Equation | Loop]]:
    """Of a loop's body what takes cells of what is scanned, what puts results together, and the rest."""
    parts: dict[Any, list[Any]] = {LOOP_CELL: [], LOOP_STACK: [], None: []}
    for item in loop.equations:
        primitive = item.primitive if isinstance(item, Equation) else None
        parts[primitive if primitive in (LOOP_CELL, LOOP_STACK) else None].append(item)
    return parts[LOOP_CELL], parts[LOOP_STACK], parts[None]
