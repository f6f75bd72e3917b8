"""Convert a planned step to one JAX program that every worker runs on its own shards.

The program follows the equations of the step. A `Lockstep` program lists the transfers between equations. A region that
several equations read is transferred once. A value that a loop reads from outside is transferred before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tofu.errors import InternalError
from tofu.jax.backend.collectives import Workers
from tofu.jax.backend.execution import Scope
from tofu.jax.backend.local_calls import CallMaker
from tofu.jax.backend.uneven import UnevenSharding, find_sharding
from tofu.jax.frontend.equations import Equation, Literal
from tofu.jax.frontend.extrema import find_compared_with_extremum
from tofu.jax.frontend.overwrites import find_overwriting_updates
from tofu.jax.frontend.read_step import Native
from tofu.jax.frontend.value_types import as_type
from tofu.jax.frontend.versions import scatters_sums, shard_map
from tofu.program import PlannedProgram, is_checked
from tofu.program.alignment import align_workers
from tofu.program.check_collectives import check_collectives
from tofu.program.collectives import Collective, Layout, recognize
from tofu.program.lockstep import Compute, Lockstep
from tofu.program.parts import list_shards
from tofu.search.choices import REPLICATED
from tofu.search.geometry import find_shards


class SpmdProgram:
    """A planned step as one JAX program for all workers.

    The operands are the step's arguments, then its constants. `operand_numbers` has their numbers in the step.
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
    def lockstep(self) -> Lockstep:
        """The computations and transfers that all workers run together."""
        return align_workers(
            self._planned,
            self.problem.factors,
            lambda tensor: find_shards(self.problem, tensor, self.choices.layout(tensor)),
        )

    @cached_property
    def calls(self) -> CallMaker:
        """Factory for the calls that compute equations on shards."""
        return CallMaker(self.choices, self.lockstep.values, self.workers, find_overwriting_updates(self.step))

    @cached_property
    def collectives(self) -> dict[int, tuple[Collective, ...]]:
        """The collectives that transfer each value of `lockstep`."""
        lockstep, is_complete = self.lockstep, not self._planned.readers
        if is_complete and is_checked() and lockstep.moved_bytes > self._planned.remote_bytes:
            raise InternalError(
                f"Transfers move {lockstep.moved_bytes} bytes, and the program {self._planned.remote_bytes}."
            )
        collectives_by_kind: dict[Hashable, tuple[Collective, ...]] = {}
        collectives_by_value: dict[int, tuple[Collective, ...]] = {}
        for value, transfer in lockstep.transfers.items():
            kind = lockstep.find_kind(transfer)
            if kind not in collectives_by_kind:
                collectives_by_kind[kind] = recognize(lockstep, transfer)
                if is_complete and is_checked():
                    check_collectives(lockstep, transfer, collectives_by_kind[kind])
            collectives_by_value[value] = collectives_by_kind[kind]
        return collectives_by_value

    @cached_property
    def shards(self) -> dict[int, int]:
        """{number of a value in the step: number of its shards in `lockstep`}."""
        tensors, shards = self.native.tensor_of.items(), self.lockstep.shards
        return {number: shards[tensor] for number, tensor in tensors if tensor in shards}

    @cached_property
    def _value_by_result(self) -> dict[tuple[int, Layout], int]:
        outputs = zip(self._planned.outputs, self.lockstep.results, strict=True)
        return {(output.tensor, tuple(map(int, output.layout))): value for output, value in outputs}

    def make_mesh(self, devices: Sequence[Any]) -> Mesh:
        """Arrange devices in the mesh of the plan, such as 3 x 2 devices."""
        shape, names = self.workers.mesh_axes
        return Mesh(np.array(devices, object).reshape(shape), names)

    def shardings(self, mesh: Mesh) -> list[NamedSharding]:
        """Return the sharding of each operand."""
        return [NamedSharding(mesh, self.spec(self.find_layout(number))) for number in self.operand_numbers]

    def result_shardings(self, mesh: Mesh) -> list[NamedSharding]:
        """Return the sharding of each result."""
        layouts = {position: self.find_layout(number) for position, number in self._layout_owners.items()}
        specs = (self.spec(layouts[n]) if n in layouts else PartitionSpec() for n in range(len(self.step.outputs)))
        return [NamedSharding(mesh, spec) for spec in specs]

    def compile(self, mesh: Mesh, donated: Sequence[int] = ()) -> Any:
        """Return the function from operands to results, compiled by `jax.jit`."""
        function, ins, outs = self.function(mesh), tuple(self.shardings(mesh)), self.result_shardings(mesh)
        return jax.jit(function, in_shardings=ins, out_shardings=outs, donate_argnums=tuple(donated))

    def function(self, mesh: Mesh) -> Callable[..., list[Any]]:
        """Return the function from operands to results. Pass it to `jax.jit` with the shardings of both."""
        self.workers.scatters_sums = scatters_sums(list(mesh.devices.flat))  # before anything is traced
        mapped = self.map_over_mesh(mesh)

        def run(*leaves: Any) -> list[Any]:
            return list(map(as_type, mapped(*leaves), self.step.result_types))

        return run

    def map_over_mesh(self, mesh: Mesh, is_checked: bool = False) -> Any:
        """Return the program under `jax.shard_map`, as a function of complete arrays.

        With `is_checked=True`, JAX must prove that replicas are equal. If it cannot, tracing raises TypeError or
        ValueError.
        """
        specs = PartitionSpec(self.workers.mesh_axes[1]), *(sharding.spec for sharding in self.shardings(mesh))
        result_specs = [sharding.spec for sharding in self.result_shardings(mesh)]
        mapped = shard_map(self._run, mesh, specs, result_specs, is_checked=is_checked)
        return partial(mapped, self.workers.numbers)

    def check_replicas(self, mesh: Mesh) -> bool:
        """Return True if JAX can prove that all replicas of an array are equal."""
        try:
            jax.eval_shape(self.map_over_mesh(mesh, is_checked=True), *self.argument_structs(mesh))
        except (TypeError, ValueError):
            return False
        return True

    def _run(self, numbers: Any, *shards: Any) -> list[Any]:
        # Compute one worker's shards of the results from its number and its shards of the operands.
        scope = Scope(self, dict(zip((self.shards[number] for number in self.operand_numbers), shards, strict=True)))
        with self.workers.remember(lax.squeeze(numbers, (0,))):
            scope.run(self.step.equations)
            return [
                jnp.asarray(x.value)
                if isinstance(x, Literal)
                else scope.get_array(self.find_result(x, self._layout_owners[n]))
                for n, x in enumerate(self.step.outputs)
            ]

    def find_compute(self, equation: Equation) -> Compute | None:
        """Return the instruction that computes an equation (JAX operation), or None if transfers replace it."""
        return self.lockstep.computes.get(self._operator_by_origin[id(equation)])

    def uneven_arguments(self, mesh: Mesh) -> dict[int, UnevenSharding]:
        """Return {position: sharding} of operands with overlapping shards."""
        return self._find_uneven(dict(enumerate(self.operand_numbers)), self.shardings(mesh))

    def uneven_results(self, mesh: Mesh) -> dict[int, UnevenSharding]:
        """Return {position: sharding} of results with overlapping shards."""
        return self._find_uneven(self._layout_owners, self.result_shardings(mesh))

    def _find_uneven(self, numbers: Mapping[int, int], shardings: Sequence[NamedSharding]) -> dict[int, UnevenSharding]:
        uneven_shardings: dict[int, UnevenSharding] = {}
        for position, number in numbers.items():
            boxes = list_shards(self.choices, self.native.tensor_of[number])
            shape, layout = self.step.types[number].shape, self.find_layout(number)
            sharding = find_sharding(boxes, layout, self.workers.factors, shape, shardings[position])
            if sharding is not None:
                uneven_shardings[position] = sharding
        return uneven_shardings

    def argument_structs(self, mesh: Mesh) -> list[jax.ShapeDtypeStruct]:
        """Return the shape and type of each operand."""
        types, uneven = [self.step.types[number] for number in self.operand_numbers], self.uneven_arguments(mesh)
        shapes = (uneven[n].joined_shape if n in uneven else type_.shape for n, type_ in enumerate(types))
        return [jax.ShapeDtypeStruct(shape, type_.dtype) for shape, type_ in zip(shapes, types, strict=True)]

    @cached_property
    def _layout_owners(self) -> dict[int, int]:
        next_values, tensor_of = self.problem.graph.next_values, self.native.tensor_of
        pairs = enumerate(zip_longest(self.step.outputs, self.step.inputs[: len(self.step.outputs)]))
        return {
            position: argument
            if argument is not None and next_values.get(tensor_of[argument]) == tensor_of[result]
            else result
            for position, (result, argument) in pairs
            if isinstance(result, int)
        }

    def find_layout(self, number: int) -> Layout:
        """Return the layout of a value: the dimension that each axis of the device grid splits, or -1 for none."""
        return tuple(self.choices.layout(self.native.tensor_of[number]))

    def find_result(self, number: int, layout_owner: int) -> int:
        """Find the shards of the value `number` in the layout of the value `layout_owner`.

        Return their number in `lockstep`.
        """
        if self.find_layout(layout_owner) == self.find_layout(number):
            return self.shards[number]
        return self._value_by_result[self.native.tensor_of[number], self.find_layout(layout_owner)]

    def spec(self, layout: Layout) -> PartitionSpec:
        """Convert a layout to a PartitionSpec."""
        names: dict[int, list[str]] = {}
        for name, dimension in zip(self.workers.axis_names, layout, strict=True):
            names.setdefault(dimension, []).append(name)
        return PartitionSpec(*(tuple(names.get(d, ())) or None for d in range(max(names, default=REPLICATED) + 1)))
