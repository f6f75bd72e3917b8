"""A step that was planned, on its devices: what runs it, and what there is to know of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tofu.errors import PlanError, ShapeError, UnsupportedError, raise_together
from tofu.host.writing import write_atomically
from tofu.jax.argument_checks import WeakTypeCheck, check_leaves, list_weak, refuse_shapes
from tofu.jax.backend.uneven import UnevenArray, UnevenSharding
from tofu.jax.engine import make_engine
from tofu.jax.frontend.equations import ValueType, as_type
from tofu.jax.frontend.names import (
    describe_difference,
    describe_node_difference,
    name_leaves,
    name_parameters,
    order_arguments,
)
from tofu.jax.frontend.read_step import check_arguments, donate, read_step
from tofu.jax.frontend.static_leaves import (
    NUMBERS,
    Empty,
    StaticLeaf,
    describe_changed,
    flatten_arrays,
    is_static,
    name_all,
)
from tofu.jax.frontend.versions import in_precision
from tofu.jax.hosts import ProcessAgreement, count_host_bytes
from tofu.jax.memory import StepMemory, predict_memory, read_compiled
from tofu.jax.placement import copy_repeated_donations, place_array, place_copy, place_local_rows, place_operand
from tofu.jax.planning import plan_step, read_settings
from tofu.jax.pytrees import make_state_hints, matches_hint, read_state_layouts, unflatten_arrays, unflatten_values
from tofu.jax.transformations import Transformation, choose_settings, make_transformable
from tofu.pipeline import Partition
from tofu.plan import Plan, format_count
from tofu.planning.progress import track_progress
from tofu.report.console import print_to_text
from tofu.report.plan_page import render_page
from tofu.report.plan_table import alternatives_table
from tofu.search.topology import arrange_as
from tofu.simulation import Simulation, read_machine
from tofu.simulation.simulate import read_states, simulate_partition
from tofu.validation import show, show_with_type

Method = TypeVar("Method", bound=Callable[..., Any])


def in_planned_precision(method: Method) -> Method:
    """A method that runs in the precision in which its step was planned, whatever `jax_enable_x64` has become."""

    @wraps(method)
    def run(self: PartitionedStep, *args: Any, **named: Any) -> Any:
        with in_precision(self._native.double):
            return method(self, *args, **named)

    return cast(Method, run)


class PartitionedStep:
    """A step that runs on several devices. It is called like the step that it was made of, and returns what that returns.

    `partition` is what the pipeline made, `mesh` the devices, `uneven` which arguments may lie in unequal parts.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        partition: Partition,
        mesh: Mesh,
        donate_argnums: int | Sequence[int],
        uneven: str | None = None,
    ) -> None:
        native, program = partition.source.native, partition.training
        self.partition, self.mesh, self.uneven = partition, mesh, uneven
        self._step, self._native = step, native
        joined, found = program.shardings(mesh), program.uneven_arguments(mesh)
        laid = [found.get(position, sharding) for position, sharding in enumerate(joined)]
        count = len(native.step.inputs)
        self._joined, self._laid, self._laid_constants = joined[:count], laid[:count], laid[count:]
        self._uneven_results = program.uneven_results(mesh)
        self._transformed: dict[Transformation, PartitionedStep] = {}
        self._donate_argnums, self._donated = donate_argnums, native.donated
        self._program, self._run = program, program.compile(mesh, self._donated)
        self._leaf_names = [partition.graph.tensors[native.tensor_of[number]].name for number in native.step.inputs]
        types = [native.step.types[number] for number in native.step.inputs]
        self._types = [jax.ShapeDtypeStruct(type_.shape, type_.dtype) for type_ in types]
        self._weak_types = WeakTypeCheck(step, native, self._leaf_names)
        self._arguments = native.arguments_tree.children()
        names = [f"constant_{n}" for n in range(len(self._laid_constants))]
        self._agreement = ProcessAgreement(
            mesh, partition.plan, [*native.arguments_tree.split(self._leaf_names), names]
        )

    @property
    def plan(self) -> Plan:
        """The plan, which prints."""
        return self.partition.plan

    @cached_property
    def shardings(self) -> Any:
        """Those of the arguments, as trees like them in which functions and texts stand as they are. Raises UnsupportedError where a class
        in them takes nothing but arrays.
        """
        whole = NamedSharding(self.mesh, PartitionSpec())
        tree = self._native.arguments_tree
        return unflatten_values(
            tree, self._laid, "shardings", lambda one: whole if isinstance(one.value, Empty) else one.value
        )

    @property
    def host_bytes(self) -> int:
        """Bytes that go between hosts in a step, as the plan counts them, and 0 on devices of one process. Where devices do not lie process
        by process it is an upper bound.
        """
        return count_host_bytes(self.mesh, self.plan.level_bytes)

    @cached_property
    def _constants(self) -> list[Any]:
        """The arrays that the step closes over, sharded as planned: the last operands of the program."""
        values = list(self._native.step.constants.values())
        with jax.ensure_compile_time_eval():  # an outer trace must not capture them
            self._agreement.check({len(self._arguments): values})
            return [
                place_operand(place_array(value, laid), laid)
                for value, laid in zip(values, self._laid_constants, strict=True)
            ]

    @in_planned_precision
    def __call__(self, *args: Any, **named: Any) -> Any:
        """One step, of arguments that lie anywhere; `place` says where they are best."""
        given = self._flatten(order_arguments(self._step, args, named))
        refuse_shapes(given, self._leaf_names)
        self._agreement.check(dict(enumerate(self._native.arguments_tree.split(given))))
        types = self._find_result_types(given)
        made = self._run_leaves(given)
        if types is not None:
            made = list(map(_as_type, made, types))
        return unflatten_arrays(self._native.results_tree, made)

    def _run_leaves(self, given: Sequence[Any]) -> list[Any]:
        """Return the leaves of the results, from those of the arguments."""
        if any(isinstance(leaf, jax.core.Tracer) for leaf in given):
            made_of = (UnevenArray, *NUMBERS)
            return self._run_traced(*(jnp.asarray(leaf) if isinstance(leaf, made_of) else leaf for leaf in given))
        leaves = list(map(place_operand, given, self._laid))
        copy_repeated_donations(leaves, self._joined, self._donated)
        made: list[Any] = self._run(*leaves, *self._constants)
        for position, sharding in self._uneven_results.items():
            made[position] = UnevenArray(made[position], sharding)
        return made

    @cached_property
    def _run_traced(self) -> Callable[..., list[Any]]:
        """The step for transformations of JAX: from whole leaves to whole results. It donates nothing, and takes leaves from anywhere."""
        run = jax.jit(self._program.function(self.mesh))

        def run_whole(*leaves: Any) -> list[Any]:
            check_leaves(leaves, self._types, self._leaf_names)  # a derivative hides what its arrays have become
            made: list[Any] = run(*map(place_operand, leaves, self._laid), *self._constants)
            for position, sharding in self._uneven_results.items():
                made[position] = sharding.restore(made[position])
            return made

        def run_transformed(asked: Transformation, leaves: Sequence[Any]) -> list[Any]:
            made = self._plan_transformed(asked)._run_leaves(leaves)
            return [jnp.asarray(one) if isinstance(one, UnevenArray) else one for one in made]

        return make_transformable(run_whole, run_transformed, self._native)

    @in_planned_precision
    def _plan_transformed(self, asked: Transformation) -> PartitionedStep:
        """Plan a transformation of this step by JAX, on the same devices, once."""
        if asked not in self._transformed:
            function, shapes = asked.derive(self._native.jaxpr)
            source = read_step(function, shapes)
            settings = choose_settings(self.partition, asked, source)
            made = plan_step(source, settings, engine=make_engine(self.uneven))
            self._transformed[asked] = PartitionedStep(function, made, self.mesh, (), self.uneven)
        return self._transformed[asked]

    @in_planned_precision
    def lower(self, *args: Any, **named: Any) -> Any:
        """Lower the step, as `jax.jit(step).lower` does, from arrays or their shapes: to be read, or compiled and called like the step.

        Leaves that are not arrays stand in the arguments as planned. An array in unequal shards is passed as `UnevenArray.joined`.
        """
        function, native = self._program.function(self.mesh), self._native

        def keep(one: StaticLeaf) -> StaticLeaf:
            return one

        def step(*arguments: Any) -> Any:
            return native.results_tree.unflatten(function(*jax.tree.leaves(arguments)), keep)

        step.__name__ = self.name
        leaves = self._flatten(order_arguments(self._step, args, named))
        self._find_result_types(leaves)
        structs = self._program.argument_structs(self.mesh)[: len(leaves)]
        pairs = zip(leaves, structs, self._laid, strict=True)
        leaves = [
            struct if isinstance(laid, UnevenSharding) or isinstance(leaf, np.ndarray) else leaf
            for leaf, struct, laid in pairs
        ]
        bound = [self._constants] if self._constants else []
        given = (
            *unflatten_values(native.arguments_tree, self._joined, "lower()", keep),
            *([x.sharding for x in constants] for constants in bound),
        )
        results = self._program.result_shardings(self.mesh)
        out = unflatten_values(native.results_tree, results, "lower()", keep)
        donated = native.list_arguments(self._donate_argnums)
        jitted = jax.jit(step, in_shardings=given, out_shardings=out, donate_argnums=donated)
        lowered = jitted.lower(*native.arguments_tree.unflatten(leaves, keep), *bound)
        return BoundStage(lowered, self._constants) if bound else lowered

    @in_planned_precision
    def lower_leaves(self) -> Any:
        """As `lower`, of the arrays in the arguments alone, one after another: trees of them are not put together."""
        lowered: Any = self._run.lower(*self._program.argument_structs(self.mesh))
        return lowered

    @in_planned_precision
    def place(self, value: Any, argument: int = 0) -> Any:
        """An argument, by default the first, laid out on the devices as the plan has it: each device gets its shard alone.

        With several processes each has the whole of it, or it lies on their devices. It shares no memory with `value`. Raises ShapeError
        for another tree, or other shapes and types, than was planned for.
        """
        leaves, names, types, laid = self._take(value, argument)
        check_leaves(leaves, types, names)
        refuse_shapes(leaves, names)
        self._agreement.check({argument: leaves})
        return unflatten_arrays(self._arguments[argument], list(map(place_copy, leaves, laid)))

    @in_planned_precision
    def place_part(self, value: Any, argument: int = 1) -> Any:
        """An argument, by default the second, of which each process has its own part, laid out on the devices as the plan has it.

        Process n of P has rows n B/P to (n + 1) B/P, without the last, of dimension 0, of extent B, of each leaf; what has no dimensions
        all have. Rows that the plan has in another process move there. Raises ShapeError where the leaves are not such parts.
        """
        leaves, names, types, laid = self._take(value, argument)
        refuse_shapes(leaves, names)
        self._agreement.check({})
        return unflatten_arrays(self._arguments[argument], list(map(place_local_rows, names, leaves, types, laid)))

    def _take(self, value: Any, argument: int) -> tuple[list[Any], list[str], list[jax.ShapeDtypeStruct], list[Any]]:
        """The leaves of an argument, and the names, types and shardings that they are planned with. Raises ShapeError for another tree."""
        if argument not in range(len(self._arguments)):
            raise UnsupportedError(
                f"argument is {show(argument)}; the step has arguments 0 to {len(self._arguments) - 1}, and one of them is placed."
            )
        leaves, given = flatten_arrays(value, self._native.has_static_numbers)
        planned, tree = self._arguments[argument], self._native.arguments_tree
        names, types, laid = (tree.split(each)[argument] for each in (self._leaf_names, self._types, self._laid))
        if given != planned:
            name = name_parameters(self._step, len(self._arguments))[argument]
            there = tree.split(tree.pick(self._native.names))[argument]
            difference = describe_difference(there, given.pick(name_leaves(name, value, is_static)))
            difference = difference or describe_node_difference(planned.tree, given.tree, name)
            raise ShapeError(
                f"What is to be placed is not like {name}, argument {argument} of the step.{difference} Another argument is placed by its "
                "number: the batch, say, by place(batch, argument=1)."
            )
        return leaves, names, types, laid

    @in_planned_precision
    def check_replicas(self) -> bool:
        """Whether JAX itself shows, by `check_vma` of `jax.shard_map`, that what the plan has whole on several devices is the same there.
        It traces the step once more, and cannot tell of what is put together box by box, as where sizes have no equal parts.
        """
        is_shown: bool = self._program.check_replicas(self.mesh)
        return is_shown

    @in_planned_precision
    def memory_report(self, compile: bool = False) -> StepMemory:
        """What each device needs, which prints. With `compile`, XLA compiles the step, and its own count stands beside the prediction."""
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
        donate_argnums: int | Sequence[int] = (),
        **options: Any,
    ) -> PartitionedStep:
        """Another step over the state of this one, an evaluation say, on the same devices: its first argument lies as it does here.

        `part` takes a tree like this step's first argument and gives the part that the other step's first argument is, for example
        `lambda state: state.params`. Options are those of `tofu.jax.partition`. Raises ShapeError where trees, shapes or types differ.
        """
        check_arguments(example_args)
        if not callable(part):
            raise UnsupportedError(
                f"part= is a function that picks a part of the state, as in part=lambda state: state.params, and not {show(part)}."
            )
        if options.get("topology") is not None:
            raise UnsupportedError(
                f"topology= is that of {self.name}, with which the devices are shared. Leave it out."
            )
        source = donate(read_step(step, tuple(example_args), self._native.has_static_numbers), donate_argnums)
        hints = make_state_hints(source, *read_state_layouts(self.partition, part))
        read_settings(self.plan.workers, options)  # raises where hints= are none
        given = dict(options.pop("hints", None) or {})
        raise_together(
            PlanError,
            f"The first argument lies as {self.name} lays it out, and hints= have it otherwise. Leave these out, or give them there:",
            [f"{name} is split along {steps}" for name, steps in hints.items() if not matches_hint(given, name, steps)],
        )
        settings = read_settings(self.plan.workers, {**options, "hints": {**given, **hints}})
        if settings.plan is not None and settings.plan.factors != self.plan.factors:
            raise PlanError(
                f"The plan has factors {settings.plan.factors}, and that of {self.name} {self.plan.factors}, whose layouts the state has. "
                "Leave plan= out, and one for these is searched."
            )
        steps = arrange_as(self.plan)
        engine = make_engine(self.uneven)
        made = plan_step(source, replace(settings, arrangement=steps), engine=engine)
        return PartitionedStep(step, made, self.mesh, donate_argnums, self.uneven)

    @in_planned_precision
    def simulate(self, machine: Any, states: int = 0) -> Simulation:
        """Predict what a step takes on a machine, by its name ("8xH100") or its file. Printed, it says where the time goes."""
        return simulate_partition(self.partition, read_machine(machine), read_states(states))

    def save_report(self, path: str | Path, title: str = "") -> None:
        """Write a page for a browser: how every tensor is cut, what moves for each operator, and what other splits would move.

        Takes a moment for each axis of the operators that move most.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise UnsupportedError(
                f"save_report takes the path of a file, such as 'plan.html', and not {show_with_type(path)}."
            )
        write_atomically(str(path), render_page(self.partition, title or self.name, track_progress))

    report = save_report

    def __reduce__(self) -> Any:
        """Raises UnsupportedError, for copies and `pickle`."""
        raise UnsupportedError(
            f"{self!r} is of this process and its devices, and is neither copied nor pickled. Save its plan, parallel.plan.to_json(), and "
            "give that to tofu.jax.partition as plan=."
        )

    def why(self, operator: str) -> str:
        """A table: what the plan would move if an operator were split along each of its axes, each a search of a moment."""
        return print_to_text(lambda console: console.print(alternatives_table(self.partition, operator)))

    @property
    def name(self) -> str:
        """That of the function."""
        return str(getattr(self._step, "__name__", "step"))

    def __repr__(self) -> str:
        devices = format_count(self.plan.workers, "device")
        return f"<{self.name} on {devices}, {self.plan.communication_bytes:,} bytes moved in a step>"

    def _describe_argument_difference(self, given: Any) -> str:
        """Where the tree of arguments is another, whose leaves have the names that were planned."""
        planned = self._native.arguments_tree.tree.children()
        pairs = zip(planned, given.children(), name_parameters(self._step, len(planned)), strict=False)
        differences = (describe_node_difference(*pair) for pair in pairs)
        return next(filter(None, differences), f" It has {len(planned)}, and {len(given.children())} are given.")

    def _flatten(self, args: Sequence[Any]) -> list[Any]:
        """The leaves of the arguments. Raises ShapeError for others than the step was planned for."""
        given, planned = tuple(args), self._native.arguments_tree
        leaves: list[Any]
        leaves, tree = jax.tree.flatten(given)
        if planned.static or tree != planned.tree:  # most often neither is so, and this runs in every step
            leaves, found = flatten_arrays(given, self._native.has_static_numbers)
            if found != planned:
                there, names = self._native.names, name_all(self._step, given)
                difference = describe_difference(planned.pick(there), found.pick(names))
                difference = difference or describe_changed(there, planned, found)
                detail = difference or self._describe_argument_difference(found.tree)
                raise ShapeError(
                    f"The step was planned for other arguments.{detail} Call tofu.jax.partition again for these, or give others."
                )
        check_leaves(leaves, self._types, self._leaf_names)
        return leaves

    def _find_result_types(self, leaves: Sequence[Any]) -> list[ValueType] | None:
        """Return the types of the results for leaves of other weak types than planned. Raises ShapeError if more types are others."""
        weak = list_weak(leaves)
        return None if weak == self._weak_types.planned else self._weak_types.find_result_types(weak)


def _as_type(value: Any, type_: ValueType) -> Any:
    """Return a result with the weak type that it has in `type_`."""
    return (
        replace(value, joined=as_type(value.joined, type_)) if isinstance(value, UnevenArray) else as_type(value, type_)
    )


@dataclass(frozen=True)
class BoundStage:
    """A `jax.stages.Lowered` or `Compiled` whose last argument is bound to `constants`; all else is that of the `stage`."""

    stage: Any
    constants: Sequence[Any]

    def compile(self, *args: Any, **named: Any) -> BoundStage:
        """Compile a lowered step."""
        return BoundStage(self.stage.compile(*args, **named), self.constants)

    def __call__(self, *args: Any) -> Any:
        """Run a compiled step on its arguments."""
        return self.stage(*args, self.constants)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage, name)
