"""A plan as sharding constraints: the program is that of one device, XLA's partitioner divides it as the plan says.

What is moved, and how, is XLA's to choose: it may move more than the plan counts, or, where it sees several equations at a time, less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding

from tofu.analysis import Combine
from tofu.errors import UnsupportedError
from tofu.jax.backend.places import Layout
from tofu.jax.backend.spmd import SpmdProgram, divide_body
from tofu.jax.frontend.equations import Equation, Literal, Loop, Operand, as_type
from tofu.jax.frontend.versions import scatters_sums, within_mesh
from tofu.search.choices import REPLICATED


class GspmdProgram(SpmdProgram):
    """A plan as XLA's partitioner runs it. `run`, what a worker does, is that of `shard_map`: memory is predicted by it."""

    def compile(self, mesh: Mesh, donated: Sequence[int] = ()) -> Any:
        """The jitted function of the arguments' leaves. Raises UnsupportedError where XLA's own collectives are known to be wrong."""
        if not scatters_sums(list(mesh.devices.flat)):
            raise UnsupportedError(
                'backend="gspmd" leaves collectives to XLA, whose reduce-scatter between processes on CPUs gives wrong sums now and then. '
                'Leave it out: backend="shard_map" does without.'
            )

        def run(*leaves: Any) -> list[Any]:
            return list(map(as_type, _Whole(self, mesh).run(leaves), self.result_types()))

        ins, outs = self.shardings(mesh), self.result_shardings(mesh)
        body = within_mesh(run, mesh)
        return jax.jit(body, in_shardings=tuple(ins), out_shardings=outs, donate_argnums=tuple(donated))


@dataclass(frozen=True)
class _Whole:
    """The step over whole tensors, each of which XLA is told the layout of: where an operator reads it, writes it, and where it lies."""

    program: GspmdProgram
    mesh: Mesh
    values: dict[int, Any] = field(default_factory=dict)

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """The results."""
        step = self.program.step
        self.values.update(zip(step.inputs, leaves, strict=True))
        self.values.update((n, self._lay(jnp.asarray(x), self._layout(n))) for n, x in step.constants.items())
        self._run_all(step.equations)
        return [jnp.asarray(self._read(operand)) for operand in step.outputs]

    def _lay(self, value: Any, layout: Layout | None) -> Any:
        """A value in a layout; what is no plain shard is left to XLA."""
        if layout is None:
            return value
        return lax.with_sharding_constraint(value, NamedSharding(self.mesh, self.program.spec(layout)))

    def _layout(self, number: int) -> Layout:
        places = self.program.places
        return places.layout(self.program.native.tensor_of[number])

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
        operator, slot, operands = self.program.number_of(equation), 0, []
        for operand in equation.inputs:
            value = self._read(operand)
            if not isinstance(operand, Literal):
                value = self._lay(value, self.program.places.read(operator, slot).layout)
                slot += 1
                if equation.checkpoint is not None:
                    value = lax.optimization_barrier(value)  # else XLA finds that it was computed before
            operands.append(value)
        return operands

    def _write(self, equation: Equation, results: Sequence[Any]) -> None:
        operator = self.program.number_of(equation)
        for slot, (number, result) in enumerate(zip(equation.outputs, results, strict=True)):
            written = self._lay(result, self._find_written(operator, slot))
            self.values[number] = self._lay(written, self._layout(number))

    def _find_written(self, operator: int, slot: int) -> Layout | None:
        """The layout in which copies write whole results; partial ones have none."""
        places = self.program.places
        combine = places.access(operator).outputs[slot].combine
        split = [combine[axis] for axis in places.axes(operator) if axis != REPLICATED]
        return None if Combine.REDUCE in split else places.written(operator, slot).layout

    def _run_equation(self, equation: Equation) -> None:
        self._write(equation, equation.evaluate(self._read_all(equation)))

    def _run_loop(self, loop: Loop) -> None:
        cells, stacks, rest = divide_body(loop)

        def run_body(state: list[Any], taken: list[Any]) -> tuple[list[Any], list[Any]]:
            inside = _Whole(self.program, self.mesh, dict(self.values))
            inside.values.update(zip((carry.value for carry in loop.carries), state, strict=True))
            for cell, value in zip(cells, taken, strict=True):
                inside._write(cell, [value])
            inside._run_all(rest)
            return [inside._carry(c.value, c.following) for c in loop.carries], [inside._read_all(s)[0] for s in stacks]

        begin = [self._carry(carry.value, carry.first) for carry in loop.carries]
        scanned = [self._read_all(cell)[0] for cell in cells]
        end, made = lax.scan(run_body, begin, scanned, length=loop.length, reverse=loop.reverse)
        self.values.update(zip((carry.last for carry in loop.carries), end, strict=True))
        for stack, whole in zip(stacks, made, strict=True):
            self._write(stack, [whole])

    def _carry(self, value: int, operand: Operand) -> Any:
        """What a carry becomes, in its layout."""
        type_ = self.program.step.types[value]
        whole = (
            jnp.full(type_.shape, operand.value, type_.dtype) if isinstance(operand, Literal) else self._read(operand)
        )
        return self._lay(as_type(whole, type_), self._layout(value))
