"""Apply `jax.grad` and `jax.vmap` to a partitioned step.

JAX cannot transform the program that the workers run. Instead, Tofu plans the transformed step as another step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero
from jax.extend import core

from tofu.engine import Source
from tofu.errors import UnsupportedError
from tofu.jax.frontend.read_step import Native
from tofu.jax.frontend.static_leaves import NUMBERS
from tofu.jax.frontend.versions import find_key_implementation
from tofu.jax.kernels.call import is_differentiable
from tofu.jax.pytrees import copy_layouts
from tofu.pipeline import Partition
from tofu.planning.settings import DEFAULTS, Settings
from tofu.search.topology import read_arrangement

Run = Callable[..., list[Any]]
MOST_SEARCH_SECONDS = 2.0  # for plans made while the user's program runs
FORWARD_MODE = (
    "A partitioned step has no forward-mode derivative (jax.jvp, jax.jacfwd, jax.linearize, jax.hessian). Use reverse mode (jax.grad, "
    "jax.vjp, jax.jacrev; jax.jacrev twice for a Hessian), or differentiate inside the step and partition that."
)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Pullback:
    """The derivative of a step in reverse mode (vector-Jacobian product).

    `wanted` has the positions of arguments to differentiate. `seeded` has the positions of results whose gradients are
    known.
    """

    wanted: tuple[int, ...]
    seeded: tuple[int, ...] = ()

    def derive(self, traced: core.ClosedJaxpr) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the derivative as a function of arguments and the results' gradients. Also return their shapes."""
        function = core.jaxpr_as_fun(traced)

        def pullback(leaves: list[Any], cotangents: list[Any]) -> tuple[Any, ...]:
            def run_seeded(*wanted_leaves: Any) -> list[Any]:
                arguments = list(leaves)
                for position, leaf in zip(self.wanted, wanted_leaves, strict=True):
                    arguments[position] = leaf
                results = function(*arguments)
                return [results[position] for position in self.seeded]

            _, pull = jax.vjp(run_seeded, *(leaves[position] for position in self.wanted))
            return tuple(pull(cotangents))

        seeds = [_shape(traced.out_avals[position]) for position in self.seeded]
        return pullback, (list(map(_shape, traced.in_avals)), seeds)


@dataclass(frozen=True)
class Batch:
    """A step for a batch of `size` examples (`jax.vmap`). `batched` is True for arguments with a batch dimension."""

    size: int
    batched: tuple[bool, ...]

    def derive(self, traced: core.ClosedJaxpr) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the step for a batch of examples, and the shapes of its arguments."""
        batched = jax.vmap(
            core.jaxpr_as_fun(traced), [0 if is_batched else None for is_batched in self.batched], axis_size=self.size
        )

        def batch(leaves: list[Any]) -> list[Any]:
            return list(batched(*leaves))

        pairs = zip(traced.in_avals, self.batched, strict=True)
        return batch, ([_shape(aval, (self.size,) if is_batched else ()) for aval, is_batched in pairs],)


Transformation: TypeAlias = Pullback | Batch
"""A transformation of a step. Equal transformations share one plan."""


def _shape(aval: Any, leading: tuple[int, ...] = ()) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((*leading, *aval.shape), aval.dtype)


def make_transformable(
    run: Run, run_transformed: Callable[[Transformation, Sequence[Any]], Sequence[Any]], native: Native
) -> Run:
    """Return `run` as a function that `jax.grad` and `jax.vmap` accept.

    `run` runs a partitioned step on complete arrays. `run_transformed` runs its gradient or its batched version.
    """
    types = [native.step.types[number] for number in native.step.inputs]
    key_implementations = [find_key_implementation(type_.dtype) if type_.is_key else None for type_ in types]
    batchable = custom_vmap(lambda *leaves: run(*leaves))

    def run_batch(size: int, batched: Sequence[bool], *leaves: Any) -> tuple[list[Any], list[bool]]:
        if size:
            results = list(run_transformed(Batch(size, tuple(batched)), leaves))
        else:
            results = [jnp.zeros((0, *type_.shape), type_.dtype) for type_ in native.step.result_types]
        return results, [True] * len(results)

    batchable.def_vmap(run_batch)

    def run_any(*leaves: Any) -> list[Any]:
        is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        return list(batchable(*leaves) if is_traced else run(*leaves))

    differentiable = jax.custom_vjp(run_any)

    def forward(*leaves: Any) -> tuple[list[Any], tuple[Pullback, list[Any]]]:
        values = [jnp.asarray(leaf.value) if isinstance(leaf.value, NUMBERS) else leaf.value for leaf in leaves]
        differentiated = (n for n, leaf in enumerate(leaves) if leaf.perturbed and is_differentiable(values[n]))
        # JAX cannot save random keys in branches, so their data are saved.
        saved_leaves = [
            x if key is None else jax.random.key_data(x) for x, key in zip(values, key_implementations, strict=True)
        ]
        return differentiable(*values), (Pullback(tuple(differentiated)), saved_leaves)  # for second derivatives

    def backward(residuals: tuple[Pullback, list[Any]], cotangents: list[Any]) -> tuple[Any, ...]:
        transformation, saved_leaves = residuals
        values = [
            x if key is None else jax.random.wrap_key_data(x, impl=key)
            for x, key in zip(saved_leaves, key_implementations, strict=True)
        ]
        seeds = {n: x for n, x in enumerate(cotangents) if not isinstance(x, SymbolicZero) and is_differentiable(x)}
        cotangent_by_leaf: dict[int, Any] = {}
        if transformation.wanted and seeds:
            transformation = replace(transformation, seeded=tuple(seeds))
            cotangent_by_leaf = dict(
                zip(transformation.wanted, run_transformed(transformation, [*values, *seeds.values()]), strict=True)
            )
        return tuple(cotangent_by_leaf.get(n) for n in range(len(values)))

    differentiable.defvjp(forward, backward, symbolic_zeros=True)

    def call(*leaves: Any) -> list[Any]:
        try:
            results: list[Any] = differentiable(*leaves)
        except TypeError as error:
            if "forward-mode" in str(error):
                raise UnsupportedError(FORWARD_MODE) from error
            raise
        return results

    return call


def choose_settings(partition: Partition, source: Source) -> Settings:
    """Return the settings for planning `source`: a planned step under `jax.grad` or `jax.vmap`.

    Its arguments keep their shardings, except arguments with a new batch dimension.
    """
    native, transformed = partition.source.native, source.native
    numbers = list(zip(transformed.step.inputs, native.step.inputs, strict=False))
    kept = [(new, old) for new, old in numbers if transformed.step.types[new].shape == native.step.types[old].shape]
    return replace(
        partition.task.settings,
        hints=copy_layouts(partition, source, kept),
        plan=None,
        saved=None,
        algorithm=DEFAULTS["algorithm"],
        search_seconds=min(partition.task.settings.search_seconds, MOST_SEARCH_SECONDS),
        topology=None,
        memory_limit=None,
        on_infeasible="accept",
        arrangement=read_arrangement(partition.plan),
    )
