"""A step that was planned, on its devices: what runs it, and what there is to know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tofu.engine import Source
from tofu.errors import PlanError, ShapeError, UnsupportedError, raise_together
from tofu.host.writing import write_atomically
from tofu.jax.backend.uneven import UnevenArray, UnevenSharding, show_whole
from tofu.jax.engine import find_engine
from tofu.jax.frontend.equations import find_dtype
from tofu.jax.frontend.leaves import describe_changed, fix_leaves, forget_fixed, has_fixed, restore_leaves
from tofu.jax.frontend.names import (
    describe_difference,
    name_arguments,
    name_leaves,
    name_parameters,
    order_arguments,
)
from tofu.jax.frontend.read_step import read_step
from tofu.jax.frontend.versions import in_precision
from tofu.jax.hosts import Agreement, count_host_bytes
from tofu.jax.laying import lay_anew, lay_apart, lay_part, separate
from tofu.jax.memory import StepMemory, predict_memory, read_compiled
from tofu.jax.planning import plan_step, read_settings
from tofu.pipeline import Partition
from tofu.plan import Plan, Steps, format_count
from tofu.planning.progress import track_progress
from tofu.reading import show
from tofu.report.console import print_to_text
from tofu.report.plan_page import render_page
from tofu.report.plan_table import alternatives_table
from tofu.search.topology import arrange_as
from tofu.simulation import Simulation, read_machine
from tofu.simulation.simulate import read_states, simulate_partition

Method = TypeVar("Method", bound=Callable[..., Any])


def as_planned(method: Method) -> Method:
    """A method that runs in the precision in which its step was planned, whatever `jax_enable_x64` has become."""

    @wraps(method)
    def run(self: PartitionedStep, *args: Any, **named: Any) -> Any:
        with in_precision(self._native.double):
            return method(self, *args, **named)

    return cast(Method, run)


class PartitionedStep:
    """A step that runs on several devices. It is called like the step that it was made of, and returns what that returns.

    `partition` is what the pipeline made, `mesh` the devices, `shardings` those of the arguments, as trees like them in which functions and
    texts stand as they are, `backend` what it runs by, `uneven` which arguments may lie in unequal parts.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        partition: Partition,
        mesh: Mesh,
        donate_argnums: int | Sequence[int],
        backend: str = "shard_map",
        uneven: str | None = None,
    ) -> None:
        native, program = partition.source.native, partition.training
        self.partition, self.mesh, self.backend, self.uneven = partition, mesh, backend, uneven
        self._step, self._native = step, native
        self._joined, found = program.shardings(mesh), program.uneven_arguments(mesh)
        self._laid = [found.get(position, sharding) for position, sharding in enumerate(self._joined)]
        self._uneven_results = program.uneven_results(mesh)
        self._shardings = jax.tree.unflatten(native.arguments_tree, self._laid)  # with what is no array as `Fixed`
        self.shardings = restore_leaves(self._shardings, lambda _: NamedSharding(mesh, PartitionSpec()))
        self._returns_fixed = has_fixed(native.results_tree)
        self._donate_argnums, self._donated = donate_argnums, native.list_leaves(donate_argnums)
        self._program, self._run = program, program.compile(mesh, self._donated)
        self._leaf_names = [partition.graph.tensors[native.tensor_of[number]].name for number in native.step.inputs]
        types = [native.step.types[number] for number in native.step.inputs]
        self._types = [jax.ShapeDtypeStruct(type_.shape, type_.dtype) for type_ in types]
        self._names = jax.tree.unflatten(native.arguments_tree, self._leaf_names)
        self._planned = jax.tree.unflatten(native.arguments_tree, self._types)
        self._agreement = Agreement(mesh, partition.plan, self._names)

    @property
    def plan(self) -> Plan:
        """The plan, which prints."""
        return self.partition.plan

    @property
    def host_bytes(self) -> int:
        """Bytes that go between hosts in a step, as the plan counts them, and 0 on devices of one process. Where devices do not lie process
        by process it is an upper bound.
        """
        return count_host_bytes(self.mesh, self.plan.level_bytes)

    @as_planned
    def __call__(self, *args: Any, **named: Any) -> Any:
        """One step, of arguments that lie anywhere; `place` says where they are best."""
        given, whole = self._flatten(order_arguments(self._step, args, named))
        self._agreement.check(dict(enumerate(whole)))
        leaves = list(map(lay_anew, given, self._laid))
        separate(leaves, self._joined, self._donated)
        made = self._run(*leaves)
        for position, sharding in self._uneven_results.items():
            made[position] = show_whole(made[position], sharding)
        results = jax.tree.unflatten(self._native.results_tree, made)
        return restore_leaves(results) if self._returns_fixed else results

    @as_planned
    def lower(self, *args: Any, **named: Any) -> Any:
        """As `jax.jit(step).lower`: of arrays or of their shapes, to be looked at, or compiled and called like the step. What in the
        arguments is no array stands in them as the plan has it, and what has unequal parts is these, side by side (`UnevenArray.joined`).
        """
        function, native = self._program.function(self.mesh), self._native

        def step(*arguments: Any) -> Any:
            return jax.tree.unflatten(native.results_tree, function(*jax.tree.leaves(arguments)))

        step.__name__ = self.name
        leaves, _ = self._flatten(order_arguments(self._step, args, named))
        structs = self._program.argument_structs(self.mesh)
        pairs = zip(leaves, structs, self._laid, strict=True)
        leaves = [struct if isinstance(laid, UnevenSharding) else leaf for leaf, struct, laid in pairs]
        given = jax.tree.unflatten(native.arguments_tree, self._joined)
        results = jax.tree.unflatten(native.results_tree, self._program.result_shardings(self.mesh))
        jitted = jax.jit(step, in_shardings=given, out_shardings=results, donate_argnums=self._donate_argnums)
        return jitted.lower(*jax.tree.unflatten(native.arguments_tree, leaves))

    @as_planned
    def place(self, value: Any, argument: int = 0) -> Any:
        """An argument, by default the first, laid out on the devices as the plan has it: each device gets its shard alone.

        With several processes each has the whole of it, or it lies on their devices. It shares no memory with `value`. Raises ShapeError
        for another tree, or other shapes and types, than was planned for.
        """
        value = self._fix(value)
        self._check_tree(value, argument)
        _check(*map(jax.tree.leaves, (value, self._planned[argument], self._names[argument])))
        self._agreement.check({argument: value})
        return restore_leaves(jax.tree.map(lay_apart, value, self._shardings[argument]))

    @as_planned
    def place_part(self, value: Any, argument: int = 1) -> Any:
        """An argument, by default the second, of which each process has its own part, laid out on the devices as the plan has it.

        Process n of P has rows n B/P to (n + 1) B/P, without the last, of dimension 0, of extent B, of each leaf; what has no dimensions
        all have. Rows that the plan has in another process move there. Raises ShapeError where the leaves are not such parts.
        """
        value = self._fix(value)
        self._check_tree(value, argument)
        self._agreement.check({})
        laid = jax.tree.map(lay_part, self._names[argument], value, self._planned[argument], self._shardings[argument])
        return restore_leaves(laid)

    def _check_tree(self, value: Any, argument: int) -> None:
        if argument not in range(len(self._shardings)):
            raise UnsupportedError(
                f"argument is {show(argument)}; the step has arguments 0 to {len(self._shardings) - 1}, and one of them is placed."
            )
        given, planned = jax.tree.structure(value), jax.tree.structure(self._shardings[argument])
        if given != planned:
            name = name_parameters(self._step, len(self._shardings))[argument]
            names = (name_leaves(name, tree) for tree in (self._planned[argument], value))
            difference = describe_difference(*names) or f" It was planned as {planned}; {given} is given."
            raise ShapeError(
                f"What is to be placed is not like {name}, argument {argument} of the step.{difference} Another argument is placed by its "
                "number: the batch, say, by place(batch, argument=1)."
            )

    @as_planned
    def memory_report(self, compile: bool = False) -> StepMemory:
        """What each device needs, which prints. With `compile`, XLA compiles the step, and its own count stands beside the prediction."""
        predicted = predict_memory(self.partition, self._donated)
        if not compile:
            return predicted
        lowered = self._run.lower(*self._program.argument_structs(self.mesh))
        return replace(predicted, compiled=read_compiled(lowered.compile()))

    @as_planned
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
        if options.get("topology") is not None:
            raise UnsupportedError(
                f"topology= is that of {self.name}, with which the devices are shared. Leave it out."
            )
        source = read_step(step, tuple(example_args), self._native.fixes_numbers)
        laid = jax.tree.flatten(forget_fixed(part(_lay_first(self.partition))))
        hints = _pin_first(source, laid, fix_leaves(tuple(example_args), source.native.fixes_numbers), step)
        read_settings(self.plan.workers, options)  # raises where hints= are none
        given = dict(options.pop("hints", None) or {})
        raise_together(
            PlanError,
            f"The first argument lies as {self.name} lays it out, and hints= have it otherwise. Leave these out, or give them there:",
            [f"{name} is split along {steps}" for name, steps in hints.items() if not _agrees(given, name, steps)],
        )
        settings = read_settings(self.plan.workers, {**options, "hints": {**given, **hints}})
        if settings.plan is not None and settings.plan.factors != self.plan.factors:
            raise PlanError(
                f"The plan has factors {settings.plan.factors}, and that of {self.name} {self.plan.factors}, whose layouts the state has. "
                "Leave plan= out, and one for these is searched."
            )
        steps = arrange_as(self.plan)
        engine = find_engine(self.backend, self.uneven)
        made = plan_step(source, replace(settings, arrangement=steps), engine=engine)
        return PartitionedStep(step, made, self.mesh, donate_argnums, self.backend, self.uneven)

    @as_planned
    def simulate(self, machine: Any, states: int = 0) -> Simulation:
        """What a step takes on a machine, by its name ("8xH100") or its file; printed, it says where the time goes. XLA fuses operators
        that only pass cells on to each other, and the simulation does not: it counts memory traffic that XLA saves.
        """
        found = simulate_partition(self.partition, read_machine(machine), read_states(states))
        needed = predict_memory(self.partition, self._donated).worker.needed_bytes
        return replace(found, worker_bytes=(needed,) * found.workers)

    def save_report(self, path: str | Path, title: str = "") -> None:
        """Write a page for a browser: how every tensor is cut, what moves for each operator, and what other splits would move.

        Takes a moment for each axis of the operators that move most.
        """
        write_atomically(str(path), render_page(self.partition, title or self.name, track_progress))

    report = save_report

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

    def _fix(self, tree: Any) -> Any:
        """The tree of arrays that was planned for."""
        return fix_leaves(tree, self._native.fixes_numbers)

    def _flatten(self, args: Sequence[Any]) -> tuple[list[Any], tuple[Any, ...]]:
        """The leaves of the arguments, and these as they were planned. Raises ShapeError for others than the step was planned for."""
        given = tuple(args)
        leaves, tree = jax.tree.flatten(given)
        if tree != self._native.arguments_tree:  # most often it is, and this runs in every step
            given = self._fix(given)
            leaves, tree = jax.tree.flatten(given)
        if tree != self._native.arguments_tree:
            difference = describe_difference(*(name_arguments(self._step, each) for each in (self._planned, given)))
            difference = difference or describe_changed(self._step, self._planned, given)
            detail = difference or f" They were like {self._native.arguments_tree}; the step is called with {tree}."
            raise ShapeError(
                f"The step was planned for other arguments.{detail} Call tofu.jax.partition again for these, or give others."
            )
        _check(leaves, self._types, self._leaf_names)
        return leaves, given


def _is_there(leaf: Any) -> bool:
    """Whether it is an array on devices: not one of NumPy's, and not what `jax.jit` traces a function with."""
    return isinstance(leaf, (jax.Array, UnevenArray)) and not isinstance(leaf, jax.core.Tracer)


def _check(leaves: Sequence[Any], planned: Sequence[jax.ShapeDtypeStruct], names: Sequence[str]) -> None:
    """Raises ShapeError where an argument has another shape or type than was planned, UnsupportedError where it is no longer there. This
    runs in every step.
    """
    for leaf, wanted, name in zip(leaves, planned, names, strict=True):
        if np.shape(leaf) != wanted.shape:
            raise ShapeError(
                f"{name} has shape {np.shape(leaf)}, and the step was planned for {wanted.shape}. Call tofu.jax.partition again for other "
                "shapes; also() plans them for the state as it lies."
            )
        dtype = find_dtype(leaf)
        if dtype != wanted.dtype:
            raise ShapeError(
                f"{name} is {dtype}, and the step was planned for {wanted.dtype}. Convert it, or call tofu.jax.partition again for other "
                "types."
            )
        if _is_there(leaf) and leaf.is_deleted():
            raise UnsupportedError(
                f"{name} is no longer there: it was given up to an earlier call (donate_argnums). Go on from what that call returned, or "
                "from a checkpoint."
            )


def _agrees(hints: Mapping[str, Any], name: str, steps: Steps) -> bool:
    """Whether hints say nothing of a tensor, or that it is split along these dimensions: one for each step, or one for all."""
    hint = hints.get(name, steps)
    return tuple(hint if isinstance(hint, (tuple, list)) else [hint] * len(steps)) == tuple(steps)


@dataclass(frozen=True)
class _Laid:
    """A leaf of an argument, and the dimension that is split at each step."""

    shape: tuple[int, ...]
    dtype: Any
    steps: Steps

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


def _lay_first(partition: Partition) -> Any:
    """The first argument, as a tree of where its leaves lie."""
    native, plan = partition.source.native, partition.plan
    (first, *_) = native.arguments_tree.children()
    leaves = []
    for number in native.step.inputs[: first.num_leaves]:
        type_ = native.step.types[number]
        name = partition.graph.tensors[native.tensor_of[number]].name
        leaves.append(_Laid(type_.shape, type_.dtype, plan.tensors[name]))
    return jax.tree.unflatten(first, leaves)


def _pin_first(
    source: Source, laid: tuple[Sequence[_Laid], Any], args: Sequence[Any], step: Callable[..., Any]
) -> Mapping[str, Steps]:
    """Hints that lay out the first argument of a step like these leaves. Raises ShapeError where it has others."""
    native, (leaves, tree) = source.native, laid
    first = jax.tree.structure(forget_fixed(args[0])) if args else None
    if first != tree:
        raise ShapeError(
            f"The first argument of the step is {first}, and the state {tree}. Where it is a part of the state, say which: "
            "part=lambda state: ..."
        )
    numbers = native.step.inputs[: len(leaves)]
    differing = []
    for name, number, leaf in zip(name_arguments(step, args), numbers, leaves, strict=False):
        type_ = native.step.types[number]
        if (type_.shape, type_.dtype) != (leaf.shape, leaf.dtype):
            differing.append(f"{name} is {type_.dtype} of shape {type_.shape}, and {leaf} in the state")
    raise_together(
        ShapeError, "The first argument of the step is not like the state, whose layouts it is to have:", differing
    )
    names = (source.graph.tensors[native.tensor_of[number]].name for number in numbers)
    return {name: leaf.steps for name, leaf in zip(names, leaves, strict=True)}
