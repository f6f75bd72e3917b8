"""A training step that runs on several devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tofu.errors import UnsupportedError
from tofu.formatting import format_count
from tofu.host.writing import write_atomically
from tofu.jax.backend.uneven import UnevenArray, UnevenSharding
from tofu.jax.engine import make_engine
from tofu.jax.frontend.names import order_arguments
from tofu.jax.frontend.read_step import check_arguments, count_state, donate, read_step
from tofu.jax.frontend.static_leaves import Empty, StaticLeaf
from tofu.jax.frontend.value_types import ValueType, as_type
from tofu.jax.frontend.versions import in_precision
from tofu.jax.hosts import count_host_bytes
from tofu.jax.memory import StepMemory, predict_memory, read_compiled
from tofu.jax.placement import place_copy, place_local_rows
from tofu.jax.planning import plan_on_same_state
from tofu.jax.pytrees import unflatten_arrays, unflatten_values
from tofu.jax.step_arguments import StepArguments, check_leaves, refuse_shapes
from tofu.jax.step_execution import StepExecution
from tofu.pipeline import Partition
from tofu.plan import Plan
from tofu.report.console import print_to_text
from tofu.report.plan_page import render_page
from tofu.report.plan_table import DEFAULT_ROWS, alternatives_table, write_plan_table
from tofu.simulation import Simulation, read_machine
from tofu.simulation.simulate import read_states, simulate_partition
from tofu.validation import show, show_with_type

Method = TypeVar("Method", bound=Callable[..., Any])


def in_planned_precision(method: Method) -> Method:
    """Run a method with the step's setting of `jax_enable_x64`, JAX's option for 64-bit types."""

    @wraps(method)
    def run(self: PartitionedStep, *args: Any, **named: Any) -> Any:
        with in_precision(self._native.double):
            return method(self, *args, **named)

    return cast(Method, run)


class PartitionedStep:
    """A training step that runs on several devices. Call it like the original step.

    Attributes
    ----------
    partition
        The plan, and the step that it splits.
    mesh
        The devices, arranged in a grid, such as 3 x 2 devices.
    uneven
        The value of `uneven=` in `tofu.jax.partition`.
    """

    def __init__(self, step: Callable[..., Any], partition: Partition, mesh: Mesh, uneven: str | None = None) -> None:
        self.partition, self.mesh, self.uneven = partition, mesh, uneven
        self._step, self._native = step, partition.source.native
        self._execution = StepExecution(self.name, partition, mesh, uneven)
        self._arguments = StepArguments(step, self._native, self._execution.names)

    @property
    def plan(self) -> Plan:
        """The plan: how each operator and tensor is split. `print(step.plan)` lists operators, `plan_table` layers."""
        return self.partition.plan

    @cached_property
    def shardings(self) -> Any:
        """The sharding of each array in the step's arguments, as trees.

        The trees have the structure of the arguments. Raises UnsupportedError if a class in a tree accepts only arrays.
        """
        replicated, structure = NamedSharding(self.mesh, PartitionSpec()), self._native.arguments_tree

        def restore(leaf: StaticLeaf) -> Any:
            return replicated if isinstance(leaf.value, Empty) else leaf.value

        return unflatten_values(structure, self._execution.shardings, "shardings", restore)

    @property
    def uneven_state(self) -> list[str]:
        """The names of the state's arrays that are stored as `UnevenArray`."""
        state_names = self._arguments.names[: count_state(self.partition.source)]
        state = zip(state_names, self._execution.shardings, strict=False)
        return [name for name, sharding in state if isinstance(sharding, UnevenSharding)]

    @property
    def host_bytes(self) -> int:
        """Upper bound on the bytes that one step transfers between hosts."""
        return count_host_bytes(self.mesh, self.plan.level_bytes)

    @in_planned_precision
    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run one step. To avoid transfers at each call, call `place` before the first step."""
        leaves, variant = self._arguments.flatten(order_arguments(self._step, args, named))
        refuse_shapes(leaves, self._arguments.names)
        self._execution.agreement.check(dict(enumerate(self._arguments.split(leaves))))
        result_types = self._arguments.find_result_types(leaves, variant)
        results = self._execution.run(leaves, variant.jaxpr)
        if result_types is not None:
            results = list(map(_as_type, results, result_types))
        return unflatten_arrays(variant.results_tree, results)

    @in_planned_precision
    def lower(self, *args: Any, **named: Any) -> Any:
        """Prepare the step for XLA, JAX's compiler, as `jax.jit(step).lower` does.

        Pass arrays or their shapes. The compiled step is called like the step, with the same static data, such as
        functions. But instead of an `UnevenArray` x, it takes `x.joined`.
        """
        leaves, variant = self._arguments.flatten(order_arguments(self._step, args, named))
        self._arguments.find_result_types(leaves, variant)
        structs = self.partition.training.argument_structs(self.mesh)[: len(leaves)]  # without constants
        leaves = [
            struct if isinstance(sharding, UnevenSharding) or isinstance(leaf, np.ndarray) else leaf
            for leaf, struct, sharding in zip(leaves, structs, self._execution.shardings, strict=True)
        ]
        return self._execution.lower(variant.arguments_tree, variant.results_tree, leaves)

    @in_planned_precision
    def lower_leaves(self) -> Any:
        """Return the step's program for JAX's compiler. It takes the arrays in the arguments, then the constants."""
        return self._execution.lower_leaves()

    @in_planned_precision
    def place(self, value: Any, argument: int = 0) -> Any:
        """Store an argument on the devices, as the plan requires. Each device receives only its own shard.

        Parameters
        ----------
        value
            The argument, as a tree of complete arrays. With several processes, pass equal arrays in each process, or
            arrays that are distributed over all processes.
        argument
            The position of the argument. The default is the first one, the state.

        Returns
        -------
        tree of jax.Array or UnevenArray
            The stored arrays. They are copies, so `value` stays valid if a step reuses their memory.

        Raises
        ------
        ShapeError
            The tree, a shape or a type differs from the plan.
        """
        leaves, structure = self._arguments.flatten_one(value, argument)
        names, types, shardings = self._describe_leaves(argument)
        check_leaves(leaves, types, names)
        refuse_shapes(leaves, names)
        self._execution.agreement.check({argument: leaves})
        return unflatten_arrays(structure, list(map(place_copy, leaves, shardings)))

    @in_planned_precision
    def place_part(self, value: Any, argument: int = 1) -> Any:
        """Store an argument whose rows are divided among the processes, such as a batch.

        Parameters
        ----------
        value
            The rows (dimension 0) of this process, as a tree of arrays. The first process passes the first rows, and so
            on. Each passes the same number of rows. Scalars must be equal in all processes.
        argument
            The position of the argument. The default is the second one.

        Returns
        -------
        tree of jax.Array or UnevenArray
            The stored arrays, with the shapes of the complete argument.

        Raises
        ------
        ShapeError
            An array has a wrong number of rows.
        """
        leaves, structure = self._arguments.flatten_one(value, argument)
        names, types, shardings = self._describe_leaves(argument)
        refuse_shapes(leaves, names)
        self._execution.agreement.check({})
        placed = map(place_local_rows, names, leaves, types, shardings)
        return unflatten_arrays(structure, list(placed))

    def _describe_leaves(self, argument: int) -> tuple[list[Any], ...]:
        leaf_lists = self._arguments.names, self._arguments.types, self._execution.shardings
        return tuple(self._arguments.split(values)[argument] for values in leaf_lists)

    @in_planned_precision
    def check_replicas(self) -> bool:
        """Return True if JAX can prove that all replicas of an array are equal.

        If the result is False, the replicas may still be equal.
        """
        return bool(self.partition.training.check_replicas(self.mesh))

    @in_planned_precision
    def memory_report(self, compile: bool = False) -> StepMemory:
        """Return a table of the memory that each device needs.

        If `compile` is True, also compile the step, and show the bytes that JAX's compiler reports.
        """
        predicted = predict_memory(self.partition)
        if not compile:
            return predicted
        return replace(predicted, compiled=read_compiled(self.lower_leaves().compile()))

    @in_planned_precision
    def also(
        self,
        step: Callable[..., Any],
        example_args: Sequence[Any],
        *,
        part: Callable[[Any], Any] = lambda state: state,
        donate_argnums: int | Sequence[int] | None = None,
        **options: Any,
    ) -> PartitionedStep:
        """Plan another step on the same state and devices, such as an evaluation.

        Parameters
        ----------
        step, example_args, donate_argnums, options
            The new step, as in `tofu.jax.partition`. The option `topology` is not accepted.
        part
            A function that returns the new step's first argument from this step's state, such as `lambda state:
            state.params`.

        Raises
        ------
        ShapeError
            The result of `part` does not match the new step's first argument.
        """
        check_arguments(example_args)
        if not callable(part):
            raise UnsupportedError(
                f"part= is a function that picks a part of the state, as in part=lambda state: state.params, and not {show(part)}."
            )
        if options.get("topology") is not None:
            raise UnsupportedError(f"topology= cannot differ from {self.name}, which uses the same devices. Remove it.")
        source = donate(read_step(step, tuple(example_args), self._native.has_static_numbers), donate_argnums)
        partition = plan_on_same_state(self.partition, self.name, source, part, options, make_engine(self.uneven))
        return PartitionedStep(step, partition, self.mesh, self.uneven)

    @in_planned_precision
    def simulate(self, machine: Any, states: int = 0) -> Simulation:
        """Predict the time of a step on a machine.

        `machine` is a name such as "8xH100", or the path of a machine file. `states` counts the arrays per weight of
        an optimizer outside of the step, such as 2 for Adam.
        """
        return simulate_partition(self.partition, read_machine(machine), read_states(states))

    def plan_table(self, rows: int | None = DEFAULT_ROWS, lines: bool = False) -> str:
        """Return the plan as a table with a row for each layer, as `python -m tofu plan` prints it.

        `rows` is the maximum number of rows, or None for all layers. If `lines` is True, add each layer's source line.
        `print(plan)` has a row for each operator instead.
        """
        return write_plan_table(self.partition, rows, lines)

    def save_report(self, path: str | Path, title: str = "") -> None:
        """Write a web page about the plan: layouts, communication and some alternative splits."""
        if not isinstance(path, (str, os.PathLike)):
            raise UnsupportedError(
                f"save_report takes the path of a file, such as 'plan.html', and not {show_with_type(path)}."
            )
        write_atomically(str(path), render_page(self.partition, title or self.name))

    report = save_report

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            f"{self!r} belongs to this process and its devices, and cannot be copied or pickled. Save its plan, parallel.plan.to_json(), "
            "and pass it to tofu.jax.partition as plan=."
        )

    def why(self, operator: str) -> str:
        """Return a table of all ways to split an operator, with their communication.

        `operator` is a name from the plan, or a layer from `python -m tofu plan`. A layer stands for its largest operator.
        """
        return print_to_text(lambda console: console.print(alternatives_table(self.partition, operator)))

    @property
    def name(self) -> str:
        """The name of the step's function."""
        return str(getattr(self._step, "__name__", "step"))

    def __repr__(self) -> str:
        devices = format_count(self.plan.workers, "device")
        return f"<{self.name} on {devices}, {self.plan.communication_bytes:,} bytes moved in a step>"


def _as_type(result: Any, type_: ValueType) -> Any:
    if isinstance(result, UnevenArray):
        return replace(result, joined=as_type(result.joined, type_))
    return as_type(result, type_)
