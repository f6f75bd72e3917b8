"""Tell Tofu how a function can be split, with the decorator `tofu.jax.describe`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, update_wrapper
from itertools import compress
from types import MethodType
from typing import Any

import jax
import numpy as np

from tdl_ops.jax import DESCRIPTIONS
from tofu.errors import DescriptionError
from tofu.jax.kernels.call import KernelCall, bind_differentiable, merge, register
from tofu.jax.kernels.rule import SYNTAX, parse_rule
from tofu.jax.kernels.tracing import expect_described, is_tracing, within_kernel
from tofu.jax.verify.described import verify_described
from tofu.tdl import Description

PLAIN = (bool, int, float, str)
_formulas: dict[str, tuple[Any, ...]] = {}


def describe(
    description: str | Callable[..., Any], *, name: str = "", concrete: bool = False
) -> Callable[[Any], Described]:
    """Return a decorator that tells Tofu how a function of arrays can be split.

    Use it for functions that Tofu cannot trace, such as functions that call `pallas_call`, `jax.ffi.ffi_call`, or your
    own JAX primitive (basic operation). The function becomes one operator of the plan. Each worker calls it with its
    own shards, so the function must read sizes from its arguments. Outside of Tofu, nothing changes.

    The description is usually a *rule*. It has a group of names for each array: arguments before the arrow, results
    after the arrow.

        @tofu.jax.describe("b h _ _, b h _ _, b h _ _ -> b h _ _")
        def attention(q, k, v): ...

    - A name stands for a dimension that can be split. Here, each worker computes some positions of b and h.
    - `_` stands for a dimension that every worker needs completely.
    - `(h _)` stands for a dimension with several elements for each h, such as several query heads for each key head.
    - If a result lacks a name, the results of all workers are summed. For example, "i k, k j -> i j" describes a matrix
      product.

    Instead of a rule, the description may be a formula in Tofu's description language (docs/tdl.md), written as a
    function of the arrays. Its keyword-only parameters are arguments of the described function:

        @tofu.jax.describe(lambda q, k, v: lambda b, h, i, d: part(q[b, h, i, :], k[b, h, :, :], v[b, h, :, :])[d])

    `jax.grad` and `jax.vmap` work on a described function. The gradient runs the function again. To avoid this for a
    `jax.custom_vjp`, describe its forward and backward functions instead.

    A wrong description leads to wrong results. `attention.verify(q, k, v)` checks it.

    Parameters
    ----------
    description
        The rule, or the formula.
    name
        The operator's name in plans and hints. The default is the name of the function.
    concrete
        If True, a formula receives the sizes of arrays as Python numbers instead of symbols.

    Raises
    ------
    DescriptionError
        The description is malformed. A call raises this error if its arrays do not fit the description.
    """
    if not (isinstance(description, str) or callable(description)):
        raise DescriptionError(f"A description is a rule or a formula in TDL, and not {description!r}. {SYNTAX}")

    def decorate(function: Any) -> Described:
        if not callable(function):
            raise DescriptionError(f"describe(...) is a decorator of functions, and was given {function!r}.")
        return Described(function, description, name, concrete)

    return decorate


class Described:
    """A function with a description of how it can be split. Call it like the original function."""

    def __init__(self, function: Any, description: str | Callable[..., Any], name: str, concrete: bool) -> None:
        expect_described()
        update_wrapper(self, function)
        self.function = function
        self.description = description
        self.operator_name = name or getattr(function, "__name__", type(function).__name__).strip("<>")
        self.concrete = concrete

    @property
    def shown_description(self) -> str:
        """The rule, or the location of the formula, as text for messages."""
        code = getattr(self.description, "__code__", None)
        if code is None:
            return repr(self.description)
        return f"the formula at {code.co_filename}:{code.co_firstlineno}"

    def __repr__(self) -> str:
        return f"<{self.operator_name}, described by {self.shown_description}>"

    def __getattr__(self, name: str) -> Any:
        if name in ("function", "__wrapped__"):
            raise AttributeError(name)
        return getattr(self.function, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function. In a partitioned step, the call is one operator."""
        if not is_tracing():
            return self.function(*args, **kwargs)
        call, arrays, restore = self.make_call(args, kwargs)
        return restore(bind_differentiable(call, arrays))

    def verify(self, *args: Any, **kwargs: Any) -> Any:
        """Compare the function's results on shards with its results on these arguments. Return a report.

        Raise DescriptionError if the results differ.
        """
        return verify_described(self, args, kwargs)

    def make_call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[KernelCall, list[Any], Callable[[Any], Any]]:
        """Return (kernel call, operands, restore).

        `restore` converts the kernel's results to the function's result.
        """
        leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)))
        is_array = [isinstance(leaf, (jax.Array, np.ndarray, np.generic)) for leaf in leaves]
        result_trees: list[Any] = []

        def run(*arrays: Any) -> list[Any]:
            run_args, run_kwargs = jax.tree.unflatten(tree, merge(is_array, arrays, leaves))
            with within_kernel():
                result = self.function(*run_args, **run_kwargs)
            result_trees[:] = [jax.tree.structure(result)]
            return list(jax.tree.leaves(result))

        arrays = list(map(jax.numpy.asarray, compress(leaves, is_array)))
        call = KernelCall(self.operator_name, run)
        results = call.find_shapes(arrays)
        if isinstance(self.description, str):
            try:
                rule = parse_rule(self.description, *([x.shape for x in each] for each in (arrays, results)))
            except DescriptionError as error:
                raise DescriptionError(f"The description of {self.operator_name} is wrong: {error}") from error
            call = replace(call, name=register(self.operator_name), rule=rule)
        else:
            description = self._register_formula()
            call = replace(call, name=description.name, attributes=self._find_attributes(description, args, kwargs))
        return call, arrays, partial(jax.tree.unflatten, result_trees[-1])

    def _find_attributes(
        self, description: Description, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        attributes = {name: value for name, value in bound.arguments.items() if name in description.defaults}
        unsupported = [name for name, value in attributes.items() if not isinstance(value, PLAIN)]
        if unsupported:
            raise DescriptionError(
                f"{unsupported[0]} of {self.operator_name} is {attributes[unsupported[0]]!r}; a description takes numbers, strings and "
                "booleans."
            )
        return attributes

    def _register_formula(self) -> Description:
        formula: Any = self.description
        code = getattr(formula, "__code__", formula)
        cells = tuple(id(cell.cell_contents) for cell in getattr(formula, "__closure__", None) or ())
        formula_key = code, cells, getattr(formula, "__defaults__", None), self.concrete
        names = (self.operator_name, *(f"{self.operator_name}_{n}" for n in range(1, len(DESCRIPTIONS) + 2)))
        name = next(name for name in names if _formulas.get(name) == formula_key or name not in DESCRIPTIONS)
        if name not in DESCRIPTIONS:
            DESCRIPTIONS.op(name, concrete=self.concrete)(formula)
            _formulas[name] = formula_key
        return DESCRIPTIONS[name]
