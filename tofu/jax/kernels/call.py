"""Turn a kernel into a JAX operation with a split rule, so that each worker can call it on its shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import compress
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from tdl_ops.jax import DESCRIPTIONS
from tofu.analysis import analyse
from tofu.jax.kernels.mapped import without_shard_maps
from tofu.jax.kernels.rule import SplitRule, read_rule


@dataclass(frozen=True, eq=False)
class KernelCall:
    """A kernel with a rule for splitting its arrays.

    Attributes
    ----------
    name
        Name of the operator.
    run
        The kernel. It takes arrays or shards, and returns a list of arrays.
    rule
        Which dimensions can be split together, such as "b h _ -> b h". None if a formula describes the kernel.
    attributes
        Keyword arguments for the formula.
    refused
        Reason why the kernel cannot be split, or "".
    """

    name: str
    run: Callable[..., Sequence[Any]]
    rule: SplitRule | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""

    @property
    def primitive(self) -> Primitive:
        """The JAX primitive (basic operation) that represents this kernel in a traced program."""
        return make_primitive(self.name)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the equation that calls this kernel."""
        rule = {} if self.rule is None else self.rule.attributes
        return {"call": self, **rule, **self.attributes, **({"refused": self.refused} if self.refused else {})}

    @cached_property
    def compiled(self) -> Callable[..., Sequence[Any]]:
        """The kernel, compiled by `jax.jit`."""
        compiled: Callable[..., Sequence[Any]] = jax.jit(without_shard_maps(self.run))
        return compiled

    def bind(self, *operands: Any) -> list[Any]:
        """Call the kernel and return its results."""
        return list(self.primitive.bind(*operands, **self.parameters))

    def find_shapes(self, operands: Sequence[Any]) -> list[Any]:
        """Return the shapes and types of the results, as `jax.ShapeDtypeStruct`s."""
        structs = [jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=getattr(x, "weak_type", False)) for x in operands]
        return list(jax.eval_shape(without_shard_maps(self.run), *structs))

    def find_rule(self, operands: Sequence[Any]) -> SplitRule:
        """Return the split rule (the axes along which workers can divide the work) for operands of these shapes."""
        if self.rule is not None:
            return self.rule
        shapes = [tuple(x.shape) for x in operands]
        outputs = [tuple(x.shape) for x in self.find_shapes(operands)]
        return read_rule(analyse(DESCRIPTIONS[self.name], self.attributes, shapes, outputs))

    def differentiate(self, operands: Sequence[Any], results: Sequence[Any]) -> KernelCall:
        """Return the gradient of this kernel (vector-Jacobian product) as another kernel.

        It takes the operands and the gradients of the results. It returns the gradients of the operands.
        """
        is_differentiated, has_cotangent = ([is_differentiable(x) for x in arrays] for arrays in (operands, results))

        def run(*values: Any) -> list[Any]:
            inputs, cotangents = values[: len(is_differentiated)], values[len(is_differentiated) :]

            def run_part(*differentiated: Any) -> list[Any]:
                all_results = self.run(*merge(is_differentiated, differentiated, inputs))
                return list(compress(all_results, has_cotangent))

            _, pullback = jax.vjp(run_part, *compress(inputs, is_differentiated))
            return list(pullback(list(cotangents)))

        rule = self.find_rule(operands).differentiate(is_differentiated, has_cotangent)
        return KernelCall(register(f"{self.name}_vjp"), run, rule, refused=self.refused)

    def batch(self, operands: Sequence[Any], is_batched: Sequence[bool]) -> KernelCall:
        """Return this kernel for a batch. `is_batched` is True for operands whose first dimension is the batch."""
        pairs = zip(operands, is_batched, strict=True)
        rule = self.find_rule([jax.ShapeDtypeStruct(x.shape[is_one:], x.dtype) for x, is_one in pairs])
        axis = next(name for name in (f"batch{n or ''}" for n in range(99)) if name not in rule.axes)
        axes = [0 if is_one else None for is_one in is_batched]
        run = jax.vmap(lambda *values: list(self.run(*values)), in_axes=axes)
        name = self.name if self.rule is not None else register(f"{self.name}_vmap")
        return KernelCall(name, run, rule.add_batch(is_batched, axis), refused=self.refused)


def register(name: str) -> str:
    """Register an operator that has a split rule, and return its name.

    The name is `name`, or `name` + "_call" if another operator is called `name`.
    """
    rule_description = DESCRIPTIONS["pallas_call"].function
    while name in DESCRIPTIONS and DESCRIPTIONS[name].function is not rule_description:
        name += "_call"
    if name not in DESCRIPTIONS:
        DESCRIPTIONS.op(name, concrete=True)(rule_description)
    return name


@cache
def make_primitive(name: str) -> Primitive:
    """Return the JAX primitive (basic operation) that represents all kernels called `name`."""
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(lambda *operands, call, **attributes: list(call.compiled(*operands)))
    primitive.def_abstract_eval(_find_avals)
    batching.primitive_batchers[primitive] = _batch
    mlir.register_lowering(primitive, mlir.lower_fun(_run, multiple_results=True))
    return primitive


def _run(*operands: Any, call: KernelCall, **attributes: Any) -> list[Any]:
    return list(without_shard_maps(call.run)(*operands))


def _find_avals(*operands: Any, call: KernelCall, **attributes: Any) -> list[Any]:
    return [ShapedArray(x.shape, x.dtype) for x in call.find_shapes(operands)]


def _batch(operands: Sequence[Any], dimensions: Sequence[Any], *, call: KernelCall, **attributes: Any) -> Any:
    batched_first = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(operands, dimensions, strict=True)]
    results = call.batch(batched_first, [d is not None for d in dimensions]).bind(*batched_first)
    return results, [0] * len(results)


def bind_differentiable(call: KernelCall, operands: Sequence[Any]) -> list[Any]:
    """Call a kernel so that `jax.grad` can differentiate the call."""

    def bind(*values: Any) -> list[Any]:
        return call.bind(*values)

    run = jax.custom_vjp(bind)

    def forward(*values: Any) -> tuple[list[Any], Any]:
        return run(*values), values

    def backward(values: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        results = call.find_shapes(values)
        used_cotangents = [c for c, x in zip(cotangents, results, strict=True) if is_differentiable(x)]
        operand_cotangents = iter(bind_differentiable(call.differentiate(values, results), [*values, *used_cotangents]))
        return tuple(next(operand_cotangents) if is_differentiable(x) else None for x in values)

    run.defvjp(forward, backward)
    results: list[Any] = run(*operands)
    return results


def is_differentiable(value: Any) -> bool:
    """Return True for floating-point and complex arrays."""
    return bool(jnp.issubdtype(value.dtype, jnp.inexact))


def merge(is_replaced: Iterable[bool], replacements: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """Replace the values that `is_replaced` marks: `merge([True, False], [5], [1, 2])` is [5, 2]."""
    remaining = iter(replacements)
    return [next(remaining) if is_new else value for is_new, value in zip(is_replaced, values, strict=True)]
