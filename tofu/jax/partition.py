"""What a user calls: a training step for one device in, a step that runs on several devices out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh
from rich.console import Console

from tofu.errors import DeviceError, ShapeError, UnsupportedError
from tofu.host.writing import write_atomically
from tofu.jax.frontend.names import name_arguments
from tofu.jax.memory import StepMemory, predict_memory, read_compiled
from tofu.jax.planning import plan_step, read_settings
from tofu.pipeline import Partition
from tofu.plan import Plan
from tofu.planning.progress import track_searches
from tofu.reading import show_with_type
from tofu.report.plan_page import render_page
from tofu.report.plan_table import alternatives_table


class PartitionedStep:
    """A step that runs on several devices. It is called like the step that it was made of, and returns what that returns.

    `partition` is what the pipeline made, `mesh` the devices, `shardings` those of the arguments, as trees like them.
    """

    def __init__(
        self, step: Callable[..., Any], partition: Partition, mesh: Mesh, donate_argnums: int | Sequence[int]
    ) -> None:
        native, program = partition.source.native, partition.training
        self.partition, self.mesh = partition, mesh
        self._step, self._native = step, native
        self.shardings = jax.tree.unflatten(native.arguments_tree, program.shardings(mesh))
        counts = [len(jax.tree.leaves(tree)) for tree in self.shardings]
        given = [donate_argnums] if isinstance(donate_argnums, int) else donate_argnums
        wrong = [n for n in given if n not in range(len(counts))]
        if wrong:
            raise UnsupportedError(f"donate_argnums has {wrong[0]}; the step has arguments 0 to {len(counts) - 1}.")
        donated = [sum(counts[:n]) + leaf for n in given for leaf in range(counts[n])]
        self._donated = tuple(donated)
        self._run = program.compile(mesh, donated)

    @property
    def plan(self) -> Plan:
        """The plan, which prints."""
        return self.partition.plan

    def __call__(self, *args: Any) -> Any:
        """One step, of arguments that lie anywhere; `place` says where they are best."""
        return jax.tree.unflatten(self._native.results_tree, self._run(*self._flatten(args)))

    def lower(self, *args: Any) -> Any:
        """As `jax.jit(step).lower`: of arrays or of their shapes, to be compiled or looked at."""
        return self._run.lower(*self._flatten(args))

    def place(self, value: Any, argument: int = 0) -> Any:
        """An argument, by default the first, laid out on the devices as the plan has it: each device gets its shard alone."""
        return jax.tree.map(jax.device_put, value, self.shardings[argument])

    def memory_report(self, compile: bool = False) -> StepMemory:
        """What each device needs, which prints. With `compile`, XLA compiles the step, and its own count stands beside the prediction."""
        predicted = predict_memory(self.partition, self._donated)
        if not compile:
            return predicted
        types = map(self._native.step.types.__getitem__, self._native.step.inputs)
        shapes = [jax.ShapeDtypeStruct(type_.shape, type_.dtype) for type_ in types]
        return replace(predicted, compiled=read_compiled(self._run.lower(*shapes).compile()))

    def report(self, path: str | Path, title: str = "") -> None:
        """Write a page for a browser: how every tensor is cut, what moves for each operator, and what other splits would move.

        Takes a moment for each axis of the operators that move most.
        """
        write_atomically(str(path), render_page(self.partition, title or self.name, track_searches))

    def why(self, operator: str) -> str:
        """A table: what the plan would move if an operator were split along each of its axes, each a search of a moment."""
        text = StringIO()
        Console(file=text, width=160, highlight=False).print(alternatives_table(self.partition, operator))
        return text.getvalue()

    @property
    def name(self) -> str:
        """That of the function."""
        return str(getattr(self._step, "__name__", "step"))

    def __repr__(self) -> str:
        return f"<{self.name} on {self.plan.workers} devices, {self.plan.communication_bytes:,} bytes moved in a step>"

    def _flatten(self, args: Sequence[Any]) -> list[Any]:
        """The leaves of the arguments. Raises ShapeError for others than the step was planned for."""
        leaves, tree = jax.tree.flatten(tuple(args))
        if tree != self._native.arguments_tree:
            raise ShapeError(
                f"The step was planned for arguments like {self._native.arguments_tree}, and is called with {tree}. Call "
                "tofu.jax.partition again for other ones."
            )
        step = self._native.step
        names = name_arguments(self._step, args)
        for name, leaf, number in zip(names, leaves, step.inputs, strict=True):
            shape, planned = jax.numpy.shape(leaf), step.types[number].shape
            if shape != planned:
                raise ShapeError(
                    f"{name} has shape {shape}, and the step was planned for {planned}. Call tofu.jax.partition again for other shapes."
                )
        return list(leaves)


def partition(
    step: Callable[..., Any],
    workers: int | Mesh | Sequence[Any],
    example_args: Sequence[Any],
    *,
    donate_argnums: int | Sequence[int] = (),
    **options: Any,
) -> PartitionedStep:
    """Plan a training step and make a step of it that runs on several devices.

    Parameters
    ----------
    step
        A function of trees of arrays. What comes out first, if it is like the first argument, is the state of the next step, and lies as
        that does.
    workers
        How many devices, those of a mesh, or a list of devices. What they are divided into is the plan's.
    example_args
        Arguments, or their shapes and types (`jax.eval_shape`, `jax.ShapeDtypeStruct`): no array is made.
    donate_argnums
        Arguments whose memory the step may use, as `jax.jit` has it.
    options
        Of planning, as those of `tofu.partition`: `plan` (a plan, its JSON, or a file with that), `hints`, `search_seconds`, `algorithm`,
        `topology`, `memory_limit`, `undescribed`, `cache`.

    Raises
    ------
    DeviceError
        There are fewer devices.
    UnsupportedError, UndescribedOperatorError, InfeasibleError, PlanError
        The step cannot be read, described, split, or not so.
    """
    devices = find_devices(workers)
    made = plan_step(step, example_args, read_settings(len(devices), options))
    return PartitionedStep(step, made, made.training.make_mesh(devices), donate_argnums)


def find_devices(workers: Any) -> list[Any]:
    """The devices that are meant. Raises DeviceError where there are fewer, or something else is given."""
    if isinstance(workers, Mesh):
        return list(workers.devices.flat)
    if isinstance(workers, Sequence) and not isinstance(workers, str):
        return list(workers)
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise DeviceError(
            f"workers is {show_with_type(workers)}; it is a number of devices, a jax.sharding.Mesh, or a list of devices."
        )
    found = jax.devices()
    if len(found) < workers:
        raise DeviceError(
            f"{workers} devices are asked for, and JAX has {len(found)} ({found[0].platform}). Use fewer, or on a CPU set "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={workers} before JAX is imported."
        )
    return list(found[:workers])
