"""Prepare a planned step for XLA, JAX's compiler, as `jax.jit(step).lower` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import Mesh

from tofu.jax.backend.spmd import SpmdProgram
from tofu.jax.frontend.static_leaves import StaticLeaf, Structure
from tofu.jax.pytrees import unflatten_values


def lower_program(
    program: SpmdProgram,
    mesh: Mesh,
    name: str,
    trees: tuple[Structure, Structure],
    leaves: Sequence[Any],
    constants: Sequence[Any],
    donated_arguments: Sequence[int],
) -> Any:
    """Prepare a planned program for XLA, JAX's compiler, as `jax.jit(step).lower` does.

    `trees` are the trees of the step's arguments and results. `leaves` are the arrays in the arguments, or their
    shapes.
    """
    function, (arguments_tree, results_tree) = program.function(mesh), trees

    def step(*arguments: Any) -> Any:
        return results_tree.unflatten(function(*jax.tree.leaves(arguments)), _keep)

    step.__name__ = name
    shardings = program.shardings(mesh)[: len(leaves)]
    constants_argument = [constants] if constants else []
    argument_shardings = (
        *unflatten_values(arguments_tree, shardings, "lower()", _keep),
        *([x.sharding for x in constants] for constants in constants_argument),
    )
    result_tree = unflatten_values(results_tree, program.result_shardings(mesh), "lower()", _keep)
    jitted = jax.jit(step, in_shardings=argument_shardings, out_shardings=result_tree, donate_argnums=donated_arguments)
    lowered = jitted.lower(*arguments_tree.unflatten(leaves, _keep), *constants_argument)
    return BoundStage(lowered, constants) if constants else lowered


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
