"""Run a plan as one program for all workers, in which each worker computes its part of every equation.

Collectives transfer regions of arrays between workers. A region with several readers is fetched once. A value that a
loop reads from outside is fetched before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tofu.errors import InternalError
from tofu.jax.backend.collectives import Workers
from tofu.jax.backend.local_calls import make_call, read_bits
from tofu.jax.backend.uneven import UnevenSharding, find_sharding
from tofu.jax.frontend.equations import LOOP_CELL, LOOP_STACK, Equation, Literal, Loop, Operand, Summed, as_type
from tofu.jax.frontend.extrema import find_compared_with_extremum
from tofu.jax.frontend.read_step import Native
from tofu.jax.frontend.versions import scatters_sums, shard_map, vary
from tofu.program import PlannedProgram, is_checked
from tofu.program.alignment import align_workers
from tofu.program.check_collectives import check_collectives
from tofu.program.collectives import Collective, Layout, recognize
from tofu.program.lockstep import Compute, Lockstep
from tofu.program.parts import list_shards
from tofu.search.choices import REPLICATED


@dataclass
class _Scope:
    """A worker's arrays in the step or in a loop body, by value of the program."""

    values: dict[int, Any]
    sums: dict[int, Any] = field(default_factory=dict)
    """This worker's partial sums over loops, by value of the step."""
    rows: dict[int, Any] = field(default_factory=dict)
    """This worker's separate partial sums for each iteration of an inner loop, which a later loop reads."""

    def enter(self) -> _Scope:
        """Return the scope of a loop body. Values added to it are not visible outside."""
        return _Scope(dict(self.values))


class SpmdProgram:
    """A plan as a JAX program for all workers.

    Its operands are the leaves of the step's arguments, followed by the constants that the step closes over, so that
    each device holds only its shards of constants. `given` lists the numbers of these values. An array with overlapping
    shards is passed and returned as one array in which the shards are side by side (`uneven.py`).
    """

    def __init__(self, native: Native, program: PlannedProgram) -> None:
        self.native, self.step = native, native.step
        self.given = (*self.step.inputs, *self.step.constants)
        self.choices, self._written = program.choices, program
        self.problem = self.choices.problem
        self.workers = Workers(self.problem.factors)
        self.compared = find_compared_with_extremum(self.step)
        self._number_of = {id(operator.origin): n for n, operator in enumerate(self.problem.graph.operators)}
        self.summing = {equation.outputs[0]: equation for equation in self.step.walk() if equation.loops_summed}

    @cached_property
    def program(self) -> Lockstep:
        """The program as instructions, each of which all workers run at the same time."""
        return align_workers(self._written, self.problem.factors, lambda tensor: list_shards(self.choices, tensor))

    @cached_property
    def collectives(self) -> dict[int, tuple[Collective, ...]]:
        """The collectives that transfer each value. They are checked before anything runs."""
        found = {value: recognize(self.program, transfer) for value, transfer in self.program.transfers.items()}
        if is_checked():
            if self.program.moved_bytes > self._written.remote_bytes:
                raise InternalError(
                    f"Transfers move {self.program.moved_bytes} bytes, and the program {self._written.remote_bytes}."
                )
            for value, collectives in found.items():
                check_collectives(self.program, self.program.transfers[value], collectives)
        return found

    @cached_property
    def _results(self) -> dict[tuple[int, Layout], int]:
        outputs = zip(self._written.outputs, self.program.results, strict=True)
        return {(output.tensor, tuple(map(int, output.layout))): value for output, value in outputs}

    def make_mesh(self, devices: Sequence[Any]) -> Mesh:
        """Return the devices as a mesh with an axis for each round of the plan, a factor of the number of workers."""
        shape, names = self.workers.mesh_axes
        return Mesh(np.array(devices, object).reshape(shape), names)

    def shardings(self, mesh: Mesh) -> list[NamedSharding]:
        """Return the shardings of the operands."""
        return [NamedSharding(mesh, self.spec(self._layout(number))) for number in self.given]

    def result_shardings(self, mesh: Mesh) -> list[NamedSharding]:
        """Return the shardings of the results."""
        return [NamedSharding(mesh, self.spec(layout)) for layout in self.result_layouts()]

    def compile(self, mesh: Mesh, donated: Sequence[int] = ()) -> Any:
        """Return the jitted function from operands to results."""
        ins, outs = self.shardings(mesh), self.result_shardings(mesh)
        return jax.jit(self.function(mesh), in_shardings=tuple(ins), out_shardings=outs, donate_argnums=tuple(donated))

    def function(self, mesh: Mesh) -> Callable[..., list[Any]]:
        """Return the function from operands to results, to be jitted with `shardings` and `result_shardings`."""
        self.workers.scatters_sums = scatters_sums(list(mesh.devices.flat))  # before anything is traced
        mapped = self.map_over_mesh(mesh)

        def run(*leaves: Any) -> list[Any]:
            return list(map(as_type, mapped(*leaves), self.step.result_types))

        return run

    def map_over_mesh(self, mesh: Mesh, is_checked: bool = False) -> Any:
        """Return the program under `jax.shard_map`, as a function of complete arrays.

        If `is_checked` is True, JAX raises TypeError or ValueError if it cannot prove that replicas are equal.
        """
        specs = tuple(s.spec for s in self.shardings(mesh)), [s.spec for s in self.result_shardings(mesh)]
        return shard_map(self.run, mesh, *specs, is_checked=is_checked)

    def check_replicas(self, mesh: Mesh) -> bool:
        """Return True if JAX proves that replicas are equal.

        The program is traced with checks, but not lowered, because JAX's check fails on some primitives that it lowers
        to loops.
        """
        try:
            jax.eval_shape(self.map_over_mesh(mesh, is_checked=True), *self.argument_structs(mesh))
        except (TypeError, ValueError):
            return False
        return True

    def run(self, *shards: Any) -> list[Any]:
        """Compute a worker's shards of the results from its shards of the operands."""
        scope = _Scope(dict(zip(map(self._shards_of, self.given), shards, strict=True)))
        with self.workers.remember():
            self._run_all(self.step.equations, scope)
            return [
                jnp.asarray(x.value)
                if isinstance(x, Literal)
                else self._get(self._find_result(x, self._find_layout_owner(n, x)), scope)
                for n, x in enumerate(self.step.outputs)
            ]

    def number_of(self, equation: Equation) -> int:
        """Return the number of an equation's operator."""
        return self._number_of[id(equation)]

    def uneven_arguments(self, mesh: Mesh) -> dict[int, UnevenSharding]:
        """Return the shardings of operands with overlapping shards, by position in `given`."""
        return self._find_uneven(dict(enumerate(self.given)), self.shardings(mesh))

    def uneven_results(self, mesh: Mesh) -> dict[int, UnevenSharding]:
        """Return the shardings of results with overlapping shards, by position."""
        like = {n: self._find_layout_owner(n, x) for n, x in enumerate(self.step.outputs) if isinstance(x, int)}
        return self._find_uneven(like, self.result_shardings(mesh))

    def _find_uneven(self, numbers: Mapping[int, int], shardings: Sequence[NamedSharding]) -> dict[int, UnevenSharding]:
        found = {
            position: find_sharding(
                list_shards(self.choices, self.native.tensor_of[number]),
                self._layout(number),
                self.workers.factors,
                self.step.types[number].shape,
                shardings[position],
            )
            for position, number in numbers.items()
        }
        return {position: value for position, value in found.items() if value is not None}

    def argument_structs(self, mesh: Mesh) -> list[jax.ShapeDtypeStruct]:
        """Return the shapes and types of the operands."""
        types, uneven = [self.step.types[number] for number in self.given], self.uneven_arguments(mesh)
        shapes = (uneven[n].joined_shape if n in uneven else type_.shape for n, type_ in enumerate(types))
        return [jax.ShapeDtypeStruct(shape, type_.dtype) for shape, type_ in zip(shapes, types, strict=True)]

    def result_layouts(self) -> list[Layout]:
        """Return the layouts of the results. The next state has the layout of the state."""
        whole = (REPLICATED,) * len(self.workers.factors)
        return [
            self._layout(self._find_layout_owner(n, x)) if isinstance(x, int) else whole
            for n, x in enumerate(self.step.outputs)
        ]

    def _find_layout_owner(self, position: int, number: int) -> int:
        """Return the value whose layout a result has. For the next state, it is the argument that it replaces."""
        argument = self.step.inputs[position] if position < len(self.step.inputs) else number
        following, tensor_of = self.problem.graph.next_values, self.native.tensor_of
        return argument if following.get(tensor_of[argument]) == tensor_of[number] else number

    def _layout(self, number: int) -> Layout:
        return tuple(self.choices.layout(self.native.tensor_of[number]))

    def _shards_of(self, number: int) -> int:
        return self.program.shards[self.native.tensor_of[number]]

    def _find_result(self, number: int, like: int) -> int:
        if self._layout(like) == self._layout(number):
            return self._shards_of(number)
        return self._results[self.native.tensor_of[number], self._layout(like)]

    def spec(self, layout: Layout) -> PartitionSpec:
        """Return a layout as a PartitionSpec."""
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

    def _get(self, value: int, scope: _Scope) -> Any:
        if value not in scope.values:
            inputs = [self._get(source, scope) for source in self.program.transfers[value].inputs]
            scope.values[value] = self.workers.run(self.collectives[value], inputs or [self._make_unread(value)])
        return scope.values[value]

    def _make_unread(self, value: int) -> Any:
        """Return an array for an input that no worker reads, such as an operand that is overwritten."""
        made = self.program.values[value]
        return jnp.empty(made.shape, self.step.types[self._number_of_tensor[made.tensor]].dtype)

    @cached_property
    def _number_of_tensor(self) -> dict[int, int]:
        return {tensor: number for number, tensor in self.native.tensor_of.items()}

    def _read(self, equation: Equation, compute: Compute, scope: _Scope) -> list[Any]:
        inputs, operands = iter(compute.inputs), []
        for operand in equation.inputs:
            if isinstance(operand, Literal):
                operands.append(operand.value)
                continue
            value = self._get(next(inputs), scope)
            if equation.checkpoint is not None:
                value = lax.optimization_barrier(value)  # otherwise XLA would reuse the forward pass
            operands.append(value)
        return operands

    def _compute_of(self, equation: Equation) -> Compute | None:
        """Return the instruction of an equation. Return None if its results are only transferred, or not needed."""
        return self.program.computes.get(self.number_of(equation))

    def _run_equation(self, equation: Equation, scope: _Scope) -> None:
        compute = self._compute_of(equation)
        if compute is None:
            for value in self._list_moved(equation):
                self._get(value, scope)
            return
        call = make_call(equation, self.choices, compute, self.program.values, self.workers)
        results = call.run(self._read(equation, compute, scope))
        if equation.loops_summed:
            (number,), (result,) = equation.outputs, results
            scope.sums[number] += result.astype(scope.sums[number].dtype)
            return
        self._set_results(equation, results, scope)

    def _list_moved(self, equation: Equation) -> list[int]:
        tensors = (self.native.tensor_of[number] for number in equation.outputs)
        return [self.program.shards[tensor] for tensor in tensors if tensor in self.program.shards]

    def _set_results(self, equation: Equation, results: Sequence[Any], scope: _Scope) -> None:
        compute = self._compute_of(equation)
        assert compute is not None, equation
        for number, raw, result in zip(equation.outputs, compute.outputs, results, strict=True):
            scope.values[raw] = result
            shards = self.program.shards.get(self.native.tensor_of[number])
            if shards is not None:
                made = read_bits(self._get(shards, scope), self.step.types[number].dtype)
                scope.values[shards] = lax.optimization_barrier(made) if number in self.compared else made

    def _run_loop(self, loop: Loop, scope: _Scope) -> None:
        self._fetch_from_outside(loop.equations, scope)
        cells, stacks, rest = self._divide_body(loop)
        sums = list(loop.walk_sums())
        rows, totals = ([total.number for total in sums if total.is_row == is_row] for is_row in (True, False))

        def run_body(state: tuple[list[Any], list[Any]], taken: Any) -> Any:
            inside = scope.enter()
            carries = (self._shards_of(carry.value) for carry in loop.carries)
            inside.values.update(zip(carries, state[0], strict=True))
            inside.sums.update(zip((*totals, *rows), (*state[1], *taken[1]), strict=True))
            with self.workers.remember():
                for (cell, _), value in zip(cells, taken[0], strict=True):
                    self._set_results(cell, [value], inside)
                for number, value in zip(loop.rows, taken[2], strict=True):
                    self._set_results(self.summing[number], [value], inside)
                self._run_all(rest, inside)
                made = [self._read(stack, compute, inside)[0] for stack, compute in stacks]
                carried = [self._carry(carry.value, carry.following, inside) for carry in loop.carries]
                return (carried, [inside.sums[n] for n in totals]), (made, [inside.sums[n] for n in rows])

        begin = [self._carry(carry.value, carry.first, scope) for carry in loop.carries]
        added = [
            self._begin_sum(total) if total.is_last else scope.sums[total.number] for total in sums if not total.is_row
        ]
        scanned = [self._read(cell, compute, scope)[0] for cell, compute in cells]
        taken = scanned, [scope.sums[n] for n in rows], [scope.rows[n] for n in loop.rows]
        (end, added), (made, grown) = lax.scan(run_body, (begin, added), taken, loop.length, loop.reverse)
        scope.sums.update(zip((*totals, *rows), (*added, *grown), strict=True))
        for total in sums:
            if total.is_last and not total.rows:
                self._set_results(total.equation, [scope.sums.pop(total.number)], scope)
            elif total.is_last:
                scope.rows[total.number] = scope.sums.pop(total.number)
        scope.values.update(zip((self._shards_of(carry.last) for carry in loop.carries), end, strict=True))
        for (stack, _), whole in zip(stacks, made, strict=True):
            self._set_results(stack, [whole], scope)

    def _begin_sum(self, one: Summed) -> Any:
        operator, dtype = self.number_of(one.equation), self.step.types[one.number].dtype
        shape = self.program.values[self.program.computes[operator].outputs[0]].shape
        return vary(jnp.zeros((*one.rows, *shape), dtype), self._list_split(self.choices.operators[operator].tolist()))

    def _carry(self, value: int, operand: Operand, scope: _Scope) -> Any:
        if isinstance(operand, Literal):
            shape = self.program.values[self._shards_of(value)].shape
            carried = jnp.full(shape, operand.value, self.step.types[value].dtype)
        else:
            carried = self._get(self._find_result(operand, value), scope)
        return vary(carried, self._list_split(self._layout(value)))

    def _list_split(self, choices: Sequence[int]) -> list[str]:
        return [name for name, choice in zip(self.workers.axis_names, choices, strict=True) if choice != REPLICATED]

    def _fetch_from_outside(self, items: Sequence[Equation | Loop], scope: _Scope) -> None:
        for item in items:
            if isinstance(item, Loop):
                self._fetch_from_outside(item.equations, scope)
                continue
            compute = self._compute_of(item)
            for value in self._list_moved(item) if compute is None else compute.inputs:
                if all(base in scope.values for base in self.program.find_base(value)):
                    self._get(value, scope)

    def _divide_body(self, loop: Loop) -> tuple[list[_Step], list[_Step], list[Equation | Loop]]:
        cells: list[_Step] = []
        stacks: list[_Step] = []
        rest: list[Equation | Loop] = []
        for item in loop.equations:
            if isinstance(item, Loop) or item.primitive not in (LOOP_CELL, LOOP_STACK):
                rest.append(item)
                continue
            compute = self._compute_of(item)
            if compute is not None:  # otherwise nothing reads its result
                (cells if item.primitive is LOOP_CELL else stacks).append((item, compute))
        return cells, stacks, rest


_Step: TypeAlias = tuple[Equation, Compute]
