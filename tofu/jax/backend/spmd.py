"""Run a planned step as one program, which every worker runs on its own shards.

The program follows the equations of the step. A `Lockstep` program lists the transfers between them. A region with
several readers is transferred once. A value that a loop reads from outside is transferred before the loop.
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
from tofu.jax.frontend.equations import LOOP_CELL, LOOP_STACK, Equation, Literal, Loop, LoopSum, Operand, as_type
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
    """The arrays of a worker in the step or in a loop body, by number in the `Lockstep` program.

    Partial sums over loops are stored by the number of the summed value in the step.
    """

    values: dict[int, Any]
    sums: dict[int, Any] = field(default_factory=dict)
    """Partial sums of loops that still run."""
    separate_sums: dict[int, Any] = field(default_factory=dict)
    """Stacks of separate sums for each iteration of an inner loop, which a later loop reads."""

    def make_inner_scope(self) -> _Scope:
        return _Scope(dict(self.values))


class SpmdProgram:
    """A planned step as a JAX program for all workers.

    The operands of the program are the arrays in the step's arguments, then the constants that the step closes over.
    `operand_numbers` has their numbers in the step. An array with overlapping shards is passed and returned as one
    array in which the shards are side by side (`uneven.py`).
    """

    def __init__(self, native: Native, program: PlannedProgram) -> None:
        self.native, self.step = native, native.step
        self.operand_numbers = (*self.step.inputs, *self.step.constants)
        self.choices, self._planned = program.choices, program
        self.problem = self.choices.problem
        self.workers = Workers(self.problem.factors)
        self.compared = find_compared_with_extremum(self.step)
        self._operator_by_origin = {id(operator.origin): n for n, operator in enumerate(self.problem.graph.operators)}
        summed = (equation for equation in self.step.walk() if equation.loops_summed)
        self.summed_equations = {equation.outputs[0]: equation for equation in summed}

    @cached_property
    def program(self) -> Lockstep:
        """The instructions that all workers run together."""
        return align_workers(self._planned, self.problem.factors, lambda tensor: list_shards(self.choices, tensor))

    @cached_property
    def collectives(self) -> dict[int, tuple[Collective, ...]]:
        """For each transferred value, the collectives that transfer it. Tofu checks them before anything runs."""
        transfers = self.program.transfers
        collectives_by_value = {value: recognize(self.program, transfer) for value, transfer in transfers.items()}
        if is_checked():
            if self.program.moved_bytes > self._planned.remote_bytes:
                raise InternalError(
                    f"Transfers move {self.program.moved_bytes} bytes, and the program {self._planned.remote_bytes}."
                )
            for value, collectives in collectives_by_value.items():
                check_collectives(self.program, transfers[value], collectives)
        return collectives_by_value

    @cached_property
    def _value_by_result(self) -> dict[tuple[int, Layout], int]:
        outputs = zip(self._planned.outputs, self.program.results, strict=True)
        return {(output.tensor, tuple(map(int, output.layout))): value for output, value in outputs}

    def make_mesh(self, devices: Sequence[Any]) -> Mesh:
        """Arrange devices in a mesh that has an axis for each round in which the plan splits."""
        shape, names = self.workers.mesh_axes
        return Mesh(np.array(devices, object).reshape(shape), names)

    def shardings(self, mesh: Mesh) -> list[NamedSharding]:
        """Return the sharding of each operand."""
        return [NamedSharding(mesh, self.spec(self._find_layout(number))) for number in self.operand_numbers]

    def result_shardings(self, mesh: Mesh) -> list[NamedSharding]:
        """Return the sharding of each result."""
        return [NamedSharding(mesh, self.spec(layout)) for layout in self.result_layouts()]

    def compile(self, mesh: Mesh, donated: Sequence[int] = ()) -> Any:
        """Return the jitted function that computes the results from the operands."""
        function, ins, outs = self.function(mesh), tuple(self.shardings(mesh)), self.result_shardings(mesh)
        return jax.jit(function, in_shardings=ins, out_shardings=outs, donate_argnums=tuple(donated))

    def function(self, mesh: Mesh) -> Callable[..., list[Any]]:
        """Return the function that computes the results. Jit it with `shardings` and `result_shardings`."""
        self.workers.scatters_sums = scatters_sums(list(mesh.devices.flat))  # before anything is traced
        mapped = self.map_over_mesh(mesh)

        def run(*leaves: Any) -> list[Any]:
            return list(map(as_type, mapped(*leaves), self.step.result_types))

        return run

    def map_over_mesh(self, mesh: Mesh, is_checked: bool = False) -> Any:
        """Return the program under `jax.shard_map`, as a function of complete arrays.

        If `is_checked` is True, JAX raises TypeError or ValueError if it cannot prove that replicas are equal.
        """
        specs = [sharding.spec for sharding in self.shardings(mesh)]
        result_specs = [sharding.spec for sharding in self.result_shardings(mesh)]
        return shard_map(self.run, mesh, tuple(specs), result_specs, is_checked=is_checked)

    def check_replicas(self, mesh: Mesh) -> bool:
        """Return True if JAX can prove that devices which store the same shard always store the same numbers.

        The program is traced with checks, but not lowered, because JAX's check fails on primitives that it lowers to
        loops.
        """
        try:
            jax.eval_shape(self.map_over_mesh(mesh, is_checked=True), *self.argument_structs(mesh))
        except (TypeError, ValueError):
            return False
        return True

    def run(self, *shards: Any) -> list[Any]:
        """Compute the results on one worker, from its shards of the operands to its shards of the results."""
        scope = _Scope(dict(zip(map(self._find_shards, self.operand_numbers), shards, strict=True)))
        with self.workers.remember():
            self._run_items(self.step.equations, scope)
            return [
                jnp.asarray(x.value)
                if isinstance(x, Literal)
                else self._get_array(self._find_result_value(x, self._find_layout_owner(n, x)), scope)
                for n, x in enumerate(self.step.outputs)
            ]

    def number_of(self, equation: Equation) -> int:
        """Return the number of an equation's operator in the graph."""
        return self._operator_by_origin[id(equation)]

    def uneven_arguments(self, mesh: Mesh) -> dict[int, UnevenSharding]:
        """Return the shardings of operands with overlapping shards, by position among the operands."""
        return self._find_uneven(dict(enumerate(self.operand_numbers)), self.shardings(mesh))

    def uneven_results(self, mesh: Mesh) -> dict[int, UnevenSharding]:
        """Return the shardings of results with overlapping shards, by position."""
        values = ((n, x) for n, x in enumerate(self.step.outputs) if isinstance(x, int))
        layout_owners = {n: self._find_layout_owner(n, number) for n, number in values}
        return self._find_uneven(layout_owners, self.result_shardings(mesh))

    def _find_uneven(self, numbers: Mapping[int, int], shardings: Sequence[NamedSharding]) -> dict[int, UnevenSharding]:
        uneven_shardings: dict[int, UnevenSharding] = {}
        for position, number in numbers.items():
            boxes = list_shards(self.choices, self.native.tensor_of[number])
            shape, layout = self.step.types[number].shape, self._find_layout(number)
            sharding = find_sharding(boxes, layout, self.workers.factors, shape, shardings[position])
            if sharding is not None:
                uneven_shardings[position] = sharding
        return uneven_shardings

    def argument_structs(self, mesh: Mesh) -> list[jax.ShapeDtypeStruct]:
        """Return the shape and type of each operand."""
        types, uneven = [self.step.types[number] for number in self.operand_numbers], self.uneven_arguments(mesh)
        shapes = (uneven[n].joined_shape if n in uneven else type_.shape for n, type_ in enumerate(types))
        return [jax.ShapeDtypeStruct(shape, type_.dtype) for shape, type_ in zip(shapes, types, strict=True)]

    def result_layouts(self) -> list[Layout]:
        """Return, for each result, the dimension that each round of the plan splits.

        The next state is split like the state.
        """
        replicated = (REPLICATED,) * len(self.workers.factors)
        return [
            self._find_layout(self._find_layout_owner(n, x)) if isinstance(x, int) else replicated
            for n, x in enumerate(self.step.outputs)
        ]

    def _find_layout_owner(self, position: int, number: int) -> int:
        """Return the value that a result is split like: the argument that it replaces in the next step, or itself."""
        argument = self.step.inputs[position] if position < len(self.step.inputs) else number
        next_values, tensor_of = self.problem.graph.next_values, self.native.tensor_of
        return argument if next_values.get(tensor_of[argument]) == tensor_of[number] else number

    def _find_layout(self, number: int) -> Layout:
        return tuple(self.choices.layout(self.native.tensor_of[number]))

    def _find_shards(self, number: int) -> int:
        return self.program.shards[self.native.tensor_of[number]]

    def _find_result_value(self, number: int, layout_owner: int) -> int:
        if self._find_layout(layout_owner) == self._find_layout(number):
            return self._find_shards(number)
        return self._value_by_result[self.native.tensor_of[number], self._find_layout(layout_owner)]

    def spec(self, layout: Layout) -> PartitionSpec:
        """Convert a layout, the dimension that each round of the plan splits, to a PartitionSpec."""
        names: dict[int, list[str]] = {}
        for name, dimension in zip(self.workers.axis_names, layout, strict=True):
            names.setdefault(dimension, []).append(name)
        dimension_names = [tuple(names.get(d, ())) or None for d in range(max(names, default=REPLICATED) + 1)]
        return PartitionSpec(*dimension_names)

    def _run_items(self, items: Sequence[Equation | Loop], scope: _Scope) -> None:
        for item in items:
            if isinstance(item, Loop):
                self._run_loop(item, scope)
            else:
                self._run_equation(item, scope)

    def _get_array(self, value: int, scope: _Scope) -> Any:
        if value not in scope.values:
            inputs = [self._get_array(source, scope) for source in self.program.transfers[value].inputs]
            scope.values[value] = self.workers.run(self.collectives[value], inputs or [self._make_unread_array(value)])
        return scope.values[value]

    def _make_unread_array(self, value: int) -> Any:
        program_value = self.program.values[value]
        return jnp.empty(program_value.shape, self.step.types[self._number_by_tensor[program_value.tensor]].dtype)

    @cached_property
    def _number_by_tensor(self) -> dict[int, int]:
        return {tensor: number for number, tensor in self.native.tensor_of.items()}

    def _read_operands(self, equation: Equation, compute: Compute, scope: _Scope) -> list[Any]:
        inputs, operands = iter(compute.inputs), []
        for operand in equation.inputs:
            if isinstance(operand, Literal):
                operands.append(operand.value)
                continue
            value = self._get_array(next(inputs), scope)
            if equation.checkpoint is not None:
                value = lax.optimization_barrier(value)  # otherwise XLA would reuse the forward pass
            operands.append(value)
        return operands

    def _find_compute(self, equation: Equation) -> Compute | None:
        """Return the instruction for an equation, or None if its results are only transferred or not needed."""
        return self.program.computes.get(self.number_of(equation))

    def _run_equation(self, equation: Equation, scope: _Scope) -> None:
        compute = self._find_compute(equation)
        if compute is None:
            for value in self._list_shards(equation):
                self._get_array(value, scope)
            return
        call = make_call(equation, self.choices, compute, self.program.values, self.workers)
        results = call.run(self._read_operands(equation, compute, scope))
        if equation.loops_summed:
            (number,), (result,) = equation.outputs, results
            scope.sums[number] += result.astype(scope.sums[number].dtype)
            return
        self._set_results(equation, results, scope)

    def _list_shards(self, equation: Equation) -> list[int]:
        tensors = (self.native.tensor_of[number] for number in equation.outputs)
        return [self.program.shards[tensor] for tensor in tensors if tensor in self.program.shards]

    def _set_results(self, equation: Equation, results: Sequence[Any], scope: _Scope) -> None:
        compute = self._find_compute(equation)
        assert compute is not None, equation
        for number, value, result in zip(equation.outputs, compute.outputs, results, strict=True):
            scope.values[value] = result
            shard_value = self.program.shards.get(self.native.tensor_of[number])
            if shard_value is not None:
                array = read_bits(self._get_array(shard_value, scope), self.step.types[number].dtype)
                scope.values[shard_value] = lax.optimization_barrier(array) if number in self.compared else array

    def _run_loop(self, loop: Loop, scope: _Scope) -> None:
        self._fetch_from_outside(loop.equations, scope)
        cells, stacks, body = self._sort_body(loop)
        loop_sums = list(loop.walk_sums())
        totals = [loop_sum for loop_sum in loop_sums if not loop_sum.is_separate]
        total_numbers = [loop_sum.number for loop_sum in totals]
        separate_numbers = [loop_sum.number for loop_sum in loop_sums if loop_sum.is_separate]

        def run_body(carried: tuple[list[Any], list[Any]], scanned: tuple[list[Any], ...]) -> Any:
            (carry_arrays, partial_sums), (elements, separate_sums, complete_sums) = carried, scanned
            inside = scope.make_inner_scope()
            carry_values = (self._find_shards(carry.value) for carry in loop.carries)
            inside.values.update(zip(carry_values, carry_arrays, strict=True))
            inside.sums.update(zip((*total_numbers, *separate_numbers), (*partial_sums, *separate_sums), strict=True))
            with self.workers.remember():
                for (cell, _), element in zip(cells, elements, strict=True):
                    self._set_results(cell, [element], inside)
                for number, complete_sum in zip(loop.separate_sums, complete_sums, strict=True):
                    self._set_results(self.summed_equations[number], [complete_sum], inside)
                self._run_items(body, inside)
                results = [self._read_operands(stack, compute, inside)[0] for stack, compute in stacks]
                following = [self._read_carry(carry.value, carry.following, inside) for carry in loop.carries]
                sums, separate_sums = ([inside.sums[n] for n in each] for each in (total_numbers, separate_numbers))
                return (following, sums), (results, separate_sums)

        first = [self._read_carry(carry.value, carry.first, scope) for carry in loop.carries]
        partial_sums = [
            self._make_zero_sum(loop_sum) if loop_sum.is_outermost else scope.sums[loop_sum.number]
            for loop_sum in totals
        ]
        scanned = (
            [self._read_operands(cell, compute, scope)[0] for cell, compute in cells],
            [scope.sums[number] for number in separate_numbers],
            [scope.separate_sums[number] for number in loop.separate_sums],
        )
        (last, partial_sums), (stacked, separate_sums) = lax.scan(
            run_body, (first, partial_sums), scanned, loop.length, loop.reverse
        )
        scope.sums.update(zip((*total_numbers, *separate_numbers), (*partial_sums, *separate_sums), strict=True))
        for loop_sum in loop_sums:
            if loop_sum.is_outermost and not loop_sum.stack_shape:
                self._set_results(loop_sum.equation, [scope.sums.pop(loop_sum.number)], scope)
            elif loop_sum.is_outermost:
                scope.separate_sums[loop_sum.number] = scope.sums.pop(loop_sum.number)
        scope.values.update(zip((self._find_shards(carry.last) for carry in loop.carries), last, strict=True))
        for (stack, _), stacked_results in zip(stacks, stacked, strict=True):
            self._set_results(stack, [stacked_results], scope)

    def _make_zero_sum(self, loop_sum: LoopSum) -> Any:
        operator, dtype = self.number_of(loop_sum.equation), self.step.types[loop_sum.number].dtype
        shape = self.program.values[self.program.computes[operator].outputs[0]].shape
        zeros = jnp.zeros((*loop_sum.stack_shape, *shape), dtype)
        return vary(zeros, self._list_split_axes(self.choices.operators[operator].tolist()))

    def _read_carry(self, value: int, operand: Operand, scope: _Scope) -> Any:
        if isinstance(operand, Literal):
            shape = self.program.values[self._find_shards(value)].shape
            carried = jnp.full(shape, operand.value, self.step.types[value].dtype)
        else:
            carried = self._get_array(self._find_result_value(operand, value), scope)
        return vary(carried, self._list_split_axes(self._find_layout(value)))

    def _list_split_axes(self, choices: Sequence[int]) -> list[str]:
        return [name for name, choice in zip(self.workers.axis_names, choices, strict=True) if choice != REPLICATED]

    def _fetch_from_outside(self, items: Sequence[Equation | Loop], scope: _Scope) -> None:
        """Transfer the values that a loop body reads from outside, before the loop."""
        for item in items:
            if isinstance(item, Loop):
                self._fetch_from_outside(item.equations, scope)
                continue
            compute = self._find_compute(item)
            for value in self._list_shards(item) if compute is None else compute.inputs:
                if all(base in scope.values for base in self.program.find_transfer_sources(value)):
                    self._get_array(value, scope)

    def _sort_body(self, loop: Loop) -> tuple[list[_EquationCompute], list[_EquationCompute], list[Equation | Loop]]:
        """Return the equations that take elements, the equations that stack results, and all other equations."""
        cells: list[_EquationCompute] = []
        stacks: list[_EquationCompute] = []
        other_items: list[Equation | Loop] = []
        for item in loop.equations:
            if isinstance(item, Loop) or item.primitive not in (LOOP_CELL, LOOP_STACK):
                other_items.append(item)
                continue
            compute = self._find_compute(item)
            if compute is not None:  # otherwise nothing reads its result
                (cells if item.primitive is LOOP_CELL else stacks).append((item, compute))
        return cells, stacks, other_items


_EquationCompute: TypeAlias = tuple[Equation, Compute]
