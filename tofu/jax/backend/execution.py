"""Run the equations of a planned step on a worker's shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import lax

from tofu.jax.backend.local_calls import read_bits
from tofu.jax.frontend.equations import LOOP_CELL, LOOP_STACK, Equation, Literal, Loop, LoopSum, Operand
from tofu.jax.frontend.versions import vary
from tofu.program.lockstep import Compute
from tofu.search.choices import REPLICATED

if TYPE_CHECKING:
    from tofu.jax.backend.spmd import SpmdProgram

LOOP_PRIMITIVES = (LOOP_CELL, LOOP_STACK)


@dataclass
class Scope:
    """The arrays of one worker while it runs a step or the body of a loop.

    Attributes
    ----------
    values
        Shards, regions from other workers, and partial results. Keys are positions in `program.lockstep.values`.
    sums
        Partial sums of loops. Keys are the numbers of values in the step.
    separate_sums
        Arrays with a partial sum for each iteration of an inner loop. Keys are the numbers of values in the step.
    """

    program: SpmdProgram
    values: dict[int, Any]
    sums: dict[int, Any] = field(default_factory=dict)
    separate_sums: dict[int, Any] = field(default_factory=dict)

    def run(self, items: Sequence[Equation | Loop]) -> None:
        """Run equations and loops, and store their results."""
        for item in items:
            if isinstance(item, Loop):
                self._run_loop(item)
            else:
                self._run_equation(item)

    def get_array(self, value: int) -> Any:
        """Return this worker's array of a value in `program.lockstep`. Transfer it first if necessary."""
        if value not in self.values:
            inputs = list(map(self.get_array, self.program.lockstep.transfers[value].inputs))
            collectives = self.program.collectives[value]
            self.values[value] = self.program.workers.run(collectives, inputs or [self._make_unread_array(value)])
        return self.values[value]

    def _make_unread_array(self, value: int) -> Any:
        array, tensor_of = self.program.lockstep.values[value], self.program.native.tensor_of
        number = next(number for number, tensor in tensor_of.items() if tensor == array.tensor)
        return jnp.empty(array.shape, self.program.step.types[number].dtype)

    def _read_operands(self, equation: Equation, compute: Compute) -> list[Any]:
        inputs, operands = iter(compute.inputs), []
        for operand in equation.inputs:
            if isinstance(operand, Literal):
                operands.append(operand.value)
                continue
            array = self.get_array(next(inputs))
            if equation.checkpoint is not None:
                array = lax.optimization_barrier(array)  # otherwise XLA would reuse the forward pass
            operands.append(array)
        return operands

    def _run_equation(self, equation: Equation) -> None:
        program, compute = self.program, self.program.find_compute(equation)
        if compute is None:
            for shards in self._list_shards(equation):
                self.get_array(shards)
            return
        results = program.calls.make(equation, compute).run(self._read_operands(equation, compute))
        if equation.loops_summed:
            (number,), (result,) = equation.outputs, results
            self.sums[number] += result.astype(self.sums[number].dtype)
        else:
            self._set_results(equation, results)

    def _list_shards(self, equation: Equation) -> list[int]:
        return [self.program.shards[number] for number in equation.outputs if number in self.program.shards]

    def _set_results(self, equation: Equation, results: Sequence[Any]) -> None:
        compute = self.program.find_compute(equation)
        assert compute is not None, equation
        self.values.update(zip(compute.outputs, results, strict=True))
        for number in equation.outputs:
            if (shards := self.program.shards.get(number)) is not None:
                array = read_bits(self.get_array(shards), self.program.step.types[number].dtype)
                self.values[shards] = lax.optimization_barrier(array) if number in self.program.compared else array

    def _run_loop(self, loop: Loop) -> None:
        self._fetch_from_outside(loop.equations)
        cells, stacks = (self._list_computes(loop, primitive) for primitive in LOOP_PRIMITIVES)
        body = [x for x in loop.equations if isinstance(x, Loop) or x.primitive not in LOOP_PRIMITIVES]
        loop_sums, shards = list(loop.walk_sums()), self.program.shards

        def run_body(carried: tuple[list[Any], dict[int, Any]], scanned: tuple[Any, ...]) -> Any:
            (carry_arrays, partial_sums), (elements, separate_sums, complete_sums) = carried, scanned
            inside = Scope(self.program, dict(self.values), {**partial_sums, **separate_sums})
            inside.values.update(zip((shards[carry.value] for carry in loop.carries), carry_arrays, strict=True))
            with self.program.workers.remember():
                for (cell, _), element in zip(cells, elements, strict=True):
                    inside._set_results(cell, [element])
                for number, complete_sum in complete_sums.items():
                    inside._set_results(self.program.summed_equations[number], [complete_sum])
                inside.run(body)
                stacked = [inside._read_operands(stack, compute)[0] for stack, compute in stacks]
                following = [inside._read_carry(carry.value, carry.following) for carry in loop.carries]
            sums, separate_sums = ({n: inside.sums[n] for n in each} for each in (partial_sums, separate_sums))
            return (following, sums), (stacked, separate_sums)

        first = [self._read_carry(carry.value, carry.first) for carry in loop.carries]
        partial_sums = {
            each.number: self._make_zero_sum(each) if each.is_outermost else self.sums[each.number]
            for each in loop_sums
            if not each.is_separate
        }
        scanned = (
            [self._read_operands(cell, compute)[0] for cell, compute in cells],
            {each.number: self.sums[each.number] for each in loop_sums if each.is_separate},
            {number: self.separate_sums[number] for number in loop.separate_sums},
        )
        (last, partial_sums), (stacked, separate_sums) = lax.scan(
            run_body, (first, partial_sums), scanned, loop.length, loop.reverse
        )
        self.sums.update({**partial_sums, **separate_sums})
        for each in loop_sums:
            if each.is_outermost and not each.stack_shape:
                self._set_results(each.equation, [self.sums.pop(each.number)])
            elif each.is_outermost:
                self.separate_sums[each.number] = self.sums.pop(each.number)
        self.values.update(zip((shards[carry.last] for carry in loop.carries), last, strict=True))
        for (stack, _), array in zip(stacks, stacked, strict=True):
            self._set_results(stack, [array])

    def _list_computes(self, loop: Loop, primitive: Any) -> list[tuple[Equation, Compute]]:
        equations = (x for x in loop.equations if isinstance(x, Equation) and x.primitive is primitive)
        computes = ((equation, self.program.find_compute(equation)) for equation in equations)
        return [(equation, compute) for equation, compute in computes if compute is not None]

    def _make_zero_sum(self, loop_sum: LoopSum) -> Any:
        program, compute = self.program, self.program.find_compute(loop_sum.equation)
        assert compute is not None, loop_sum.equation
        shape = (*loop_sum.stack_shape, *program.lockstep.values[compute.outputs[0]].shape)
        zeros = jnp.zeros(shape, program.step.types[loop_sum.number].dtype)
        return vary(zeros, self._list_split_axes(program.choices.operators[compute.operator].tolist()))

    def _read_carry(self, value: int, operand: Operand) -> Any:
        program = self.program
        if isinstance(operand, Literal):
            shape = program.lockstep.values[program.shards[value]].shape
            carried = jnp.full(shape, operand.value, program.step.types[value].dtype)
        else:
            carried = self.get_array(program.find_result(operand, value))
        return vary(carried, self._list_split_axes(program.find_layout(value)))

    def _list_split_axes(self, choices: Sequence[int]) -> list[str]:
        axis_names = self.program.workers.axis_names
        return [name for name, choice in zip(axis_names, choices, strict=True) if choice != REPLICATED]

    def _fetch_from_outside(self, items: Sequence[Equation | Loop]) -> None:
        for item in items:
            if isinstance(item, Loop):
                self._fetch_from_outside(item.equations)
                continue
            compute = self.program.find_compute(item)
            for value in self._list_shards(item) if compute is None else compute.inputs:
                if all(source in self.values for source in self.program.lockstep.find_transfer_sources(value)):
                    self.get_array(value)
