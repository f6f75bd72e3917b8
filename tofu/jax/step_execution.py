"""Run a planned step on devices, also while JAX traces a function around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.sharding import Mesh

from tofu.formatting import format_count
from tofu.jax.backend.spmd import SpmdProgram
from tofu.jax.backend.uneven import UnevenArray
from tofu.jax.engine import make_engine
from tofu.jax.frontend.read_step import Native, read_step
from tofu.jax.frontend.static_leaves import NUMBERS, StaticLeaf, Structure
from tofu.jax.frontend.versions import in_precision
from tofu.jax.hosts import ProcessAgreement
from tofu.jax.placement import Sharding, copy_repeated_donations, place_array, place_operand
from tofu.jax.planning import plan_step
from tofu.jax.pytrees import unflatten_values
from tofu.jax.step_arguments import check_leaves
from tofu.jax.transformations import Transformation, choose_settings, make_transformable
from tofu.pipeline import Partition
from tofu.planning.progress import show_progress


class StepExecution:
    """A planned step on devices. It takes and returns flat lists of arrays.

    Attributes
    ----------
    name, partition, mesh, uneven
        The name of the step, and the attributes of its `PartitionedStep`.
    names, types, shardings
        Name, type and sharding of each array in the arguments.
    agreement
        A check that all processes pass equal arguments.
    """

    def __init__(self, name: str, partition: Partition, mesh: Mesh, uneven: str | None) -> None:
        native: Native = partition.source.native
        program: SpmdProgram = partition.training
        self.name, self.partition, self.mesh, self.uneven = name, partition, mesh, uneven
        self.program, self._native = program, native
        self.names = [native.name_tensor(partition.graph, number) for number in native.step.inputs]
        self.types = [native.step.types[number] for number in native.step.inputs]
        joined_shardings, uneven_by_position = program.shardings(mesh), program.uneven_arguments(mesh)
        shardings: list[Sharding] = [uneven_by_position.get(n, joined) for n, joined in enumerate(joined_shardings)]
        self.shardings, self._constant_shardings = shardings[: len(self.names)], shardings[len(self.names) :]
        self._joined_shardings = joined_shardings[: len(self.names)]
        self._uneven_results = program.uneven_results(mesh)
        self._jitted = program.compile(mesh, native.donated)
        self._is_compiled = False
        self._find_transformable = cache(self._make_transformable)
        self._find_transformed = cache(self._plan_transformed)
        constant_names = [f"constant_{n}" for n in range(len(self._constant_shardings))]
        self.agreement = ProcessAgreement(
            mesh, partition.plan, [*native.arguments_tree.split(self.names), constant_names]
        )

    @cached_property
    def constants(self) -> list[Any]:
        """The arrays that the step uses but does not take as arguments, on the devices."""
        constants = list(self._native.step.constants.values())
        with jax.ensure_compile_time_eval():  # an outer trace must not capture them
            self.agreement.check({len(self._native.arguments_tree.children()): constants})
            return [
                place_operand(place_array(value, sharding), sharding)
                for value, sharding in zip(constants, self._constant_shardings, strict=True)
            ]

    def lower_leaves(self) -> Any:
        """Return the program for JAX's compiler. It takes the arrays in the arguments, then the constants."""
        return self._jitted.lower(*self.program.argument_structs(self.mesh))

    def lower(self, arguments_tree: Structure, results_tree: Structure, leaves: Sequence[Any]) -> Any:
        """Prepare the step for XLA, JAX's compiler, as `jax.jit(step).lower` does.

        `leaves` are the arrays in the arguments, or their shapes.
        """
        function, constants = self.program.function(self.mesh), [self.constants] if self.constants else []

        def step(*arguments: Any) -> Any:
            return results_tree.unflatten(function(*jax.tree.leaves(arguments)), _keep)

        step.__name__ = self.name
        argument_shardings = (
            *unflatten_values(arguments_tree, self._joined_shardings, "lower()", _keep),
            *([x.sharding for x in each] for each in constants),
        )
        result_shardings = unflatten_values(results_tree, self.program.result_shardings(self.mesh), "lower()", _keep)
        donated = self._native.donated_arguments
        jitted = jax.jit(step, in_shardings=argument_shardings, out_shardings=result_shardings, donate_argnums=donated)
        lowered = jitted.lower(*arguments_tree.unflatten(leaves, _keep), *constants)
        return BoundStage(lowered, self.constants) if constants else lowered

    def run(self, arguments: Sequence[Any], jaxpr: core.ClosedJaxpr) -> list[Any]:
        """Run the step. `jaxpr` is the step as JAX traced it, from which derivatives are made."""
        if any(isinstance(leaf, jax.core.Tracer) for leaf in arguments):
            types_to_convert = (UnevenArray, *NUMBERS)
            arrays = (jnp.asarray(leaf) if isinstance(leaf, types_to_convert) else leaf for leaf in arguments)
            return self._find_transformable(jaxpr)(*arrays)
        leaves = list(map(place_operand, arguments, self.shardings))
        copy_repeated_donations(leaves, self._joined_shardings, self._native.donated)
        constants = self.constants
        if self._is_compiled:
            results: list[Any] = self._jitted(*leaves, *constants)
        else:
            with show_progress(f"compiling {self.name} for {format_count(self.partition.plan.workers, 'device')}"):
                results = self._jitted(*leaves, *constants)
            self._is_compiled = True
        for position, sharding in self._uneven_results.items():
            results[position] = UnevenArray(results[position], sharding)
        return results

    @cached_property
    def _jitted_for_tracers(self) -> Callable[..., list[Any]]:
        jitted: Callable[..., list[Any]] = jax.jit(self.program.function(self.mesh))
        return jitted

    def _make_transformable(self, jaxpr: core.ClosedJaxpr) -> Callable[..., list[Any]]:
        def run_whole(*leaves: Any) -> list[Any]:
            check_leaves(leaves, self.types, self.names)  # custom_vjp may have replaced the leaves
            operands = map(place_operand, leaves, self.shardings)
            results: list[Any] = self._jitted_for_tracers(*operands, *self.constants)
            for position, sharding in self._uneven_results.items():
                results[position] = sharding.restore(results[position])
            return results

        def run_transformed(transformation: Transformation, leaves: Sequence[Any]) -> list[Any]:
            execution = self._find_transformed(transformation, jaxpr)
            results = execution.run(leaves, execution.partition.source.native.jaxpr)
            return [jnp.asarray(result) if isinstance(result, UnevenArray) else result for result in results]

        return make_transformable(run_whole, run_transformed, self._native)

    def _plan_transformed(self, transformation: Transformation, jaxpr: core.ClosedJaxpr) -> StepExecution:
        with in_precision(self._native.double):
            function, argument_shapes = transformation.derive(jaxpr)
            source = read_step(function, argument_shapes)
            settings = choose_settings(self.partition, source)
            partition = plan_step(source, settings, engine=make_engine(self.uneven))
            return StepExecution(function.__name__, partition, self.mesh, self.uneven)


def _keep(leaf: StaticLeaf) -> StaticLeaf:
    return leaf


@dataclass(frozen=True)
class BoundStage:
    """A step that JAX has prepared for its compiler, or compiled. A call passes `constants` as the last argument."""

    stage: Any
    constants: Sequence[Any]

    def compile(self, *args: Any, **named: Any) -> BoundStage:
        """Compile the step."""
        return BoundStage(self.stage.compile(*args, **named), self.constants)

    def __call__(self, *args: Any) -> Any:
        """Run the compiled step."""
        return self.stage(*args, self.constants)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage, name)
