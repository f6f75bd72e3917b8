"""Run single equations, to check descriptions and ways to split.

Random keys are represented by 64-bit integers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tdl_ops.jax.case import PrimitiveCase
from tofu.jax.frontend.attributes import read_attributes
from tofu.jax.frontend.equations import LOOP_CELL, LOOP_STACK, Equation, Literal, Step, read_operand
from tofu.jax.frontend.trace import trace_step
from tofu.jax.frontend.value_types import ValueType
from tofu.jax.frontend.versions import find_key_implementation
from tofu.verification.kernel import Array, Shape

DIMENSIONS = frozenset(
    ("axes", "axis", "broadcast_dimensions", "dimension", "dimension_numbers", "dimensions", "permutation")
)
"""Parameters that name dimensions. They do not depend on the shape of a shard."""
LOOP_FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    LOOP_CELL: lambda equation, whole: whole[0],
    LOOP_STACK: lambda equation, cell: jnp.broadcast_to(cell, (equation.params["length"], *jnp.shape(cell))),
}
"""Functions that run the operators of loops, which are not JAX primitives. Every iteration gets the same values."""


DATA_BY_WIDE_KEY: dict[int, tuple[int, ...]] = {}
"""A map from hashes to the data of random keys with more than 64 bits. A key of zeros has the hash 0."""


@dataclass(frozen=True)
class EquationCase:
    """An equation (JAX operation) with the values of its operands and results.

    `inputs` and `types` leave out constants, such as 2 in `x * 2`.
    """

    equation: Equation
    attributes: Mapping[str, Any]
    types: tuple[ValueType, ...]
    output_types: tuple[ValueType, ...]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]

    @property
    def op(self) -> str:
        """Name of the JAX operation (primitive), such as "add"."""
        return str(self.equation.primitive.name)

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """Parameters that may depend on the shape of a shard, such as `start_indices`."""
        params = self.equation.params
        return {
            name: value
            for name, value in self.attributes.items()
            if name in params and name not in DIMENSIONS and _is_numeric(value)
        }

    def evaluate(self, operands: Sequence[Any], params: Mapping[str, Any] | None = None) -> list[Any]:
        """Compute the results from all operands, including literals. `params` replaces some parameters."""
        equation = (
            self.equation if params is None else replace(self.equation, params={**self.equation.params, **params})
        )
        loop_function = LOOP_FUNCTIONS.get(equation.primitive)
        return equation.evaluate(operands) if loop_function is None else [loop_function(equation, *operands)]

    def fill_operands(self, inputs: Sequence[Any]) -> list[Any]:
        """Return `inputs` with the equation's literals inserted."""
        remaining = iter(inputs)
        return [x.value if isinstance(x, Literal) else next(remaining) for x in self.equation.inputs]

    def make_inputs(self, inputs: Sequence[Array]) -> list[Any]:
        """Convert NumPy arrays to JAX arrays of the operands' types."""
        return [make_array(array, type_) for array, type_ in zip(inputs, self.types, strict=True)]

    def run(self, values: Mapping[str, Any], inputs: Sequence[Array]) -> list[Array]:
        """Compute the results for the operands `inputs`. `values` replaces some parameters of the equation."""
        return list(map(read_numbers, self.evaluate(self.fill_operands(self.make_inputs(inputs)), values)))

    def try_run(
        self, values: Mapping[str, Any], inputs: Sequence[Array], output_shapes: Sequence[Shape]
    ) -> list[Array] | None:
        """Compute the results for the operands `inputs`. Return None if JAX raises an error."""
        try:
            return self.run(values, inputs)
        except Exception:  # any error of a primitive
            return None

    def infer(self, values: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...] | None:
        """Return the shapes of the results for operands of these shapes. Return None if JAX raises an error."""
        structs = [jax.ShapeDtypeStruct(shape, type_.dtype) for shape, type_ in zip(shapes, self.types, strict=True)]
        try:
            with np.errstate(all="ignore"):  # tried parameters include strides of zero
                results = jax.eval_shape(lambda *inputs: self.evaluate(self.fill_operands(inputs), values), *structs)
        except Exception:  # any error of a primitive
            return None
        return tuple(tuple(array.shape) for array in results)


def make_array(numbers: Array, type_: ValueType) -> Any:
    """Convert a NumPy array to a JAX array of type `type_`, for example to random keys (`jax.random.key`)."""
    if not type_.is_key:
        return jnp.asarray(numbers, type_.dtype)
    implementation = find_key_implementation(type_.dtype)
    word_count = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=implementation))).shape[-1]
    if word_count == 2:
        data = np.ascontiguousarray(numbers)[..., None].view(np.uint32)
    else:
        rows = [DATA_BY_WIDE_KEY.get(int(number), (0,) * word_count) for number in numbers.flat]
        data = np.array(rows, np.uint32).reshape(*numbers.shape, word_count)
    return jax.random.wrap_key_data(data, impl=implementation)


def read_numbers(array: Any) -> Array:
    """Convert a JAX array to a NumPy array. Random keys become integers."""
    if not jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
        return np.asarray(array)
    data = np.ascontiguousarray(jax.random.key_data(array))
    if data.shape[-1] == 2:
        return data.view(np.uint64)[..., 0]
    numbers = [_number_key(tuple(map(int, words))) for words in data.reshape(-1, data.shape[-1])]
    return np.array(numbers, np.uint64).reshape(data.shape[:-1])


def _number_key(words: tuple[int, ...]) -> int:
    number = int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:8], "little") if any(words) else 0
    assert DATA_BY_WIDE_KEY.setdefault(number, words) == words, f"two keys have the number {number}"
    return number


def trace_case(case: PrimitiveCase, seed: int = 0) -> tuple[Step, list[Any]]:
    """Trace the function of a case. Return the traced step and its arguments."""
    arguments = list(map(jnp.asarray, case.draw_inputs(seed)))
    return trace_step(case.function, arguments)[0], arguments


def list_signatures(step: Step, primitives: Collection[str] = ()) -> Iterator[tuple[int, str, Equation]]:
    """Yield (number, signature, equation) for each equation that calls one of `primitives` (JAX operations).

    If `primitives` is empty, yield all equations. Equations with equal signatures have the same primitive, parameters,
    shapes and types.
    """
    for number, equation in enumerate(step.walk()):
        if not primitives or equation.primitive.name in primitives:
            operands = [x.number if isinstance(x, Literal) else step.types[x] for x in equation.inputs]
            yield number, f"{equation.primitive.name} {read_attributes(equation, step.types)} {operands}", equation


def make_node(step: Step, equation: Equation, values: Mapping[int, Any]) -> EquationCase:
    """Return an equation (JAX operation) with the values of its operands and results, taken from `values`."""
    operands = [x for x in equation.inputs if not isinstance(x, Literal)]
    node = EquationCase(
        equation,
        read_attributes(equation, step.types),
        tuple(step.types[x] for x in operands),
        tuple(step.types[x] for x in equation.outputs),
        tuple(read_numbers(read_operand(x, values)) for x in operands),
        (),
    )
    # For loops, `values` has results of the last iteration only, so the results are computed again.
    return replace(node, outputs=tuple(node.run({}, node.inputs)))


def _is_numeric(value: Any) -> bool:
    return type(value) is int or (isinstance(value, tuple) and bool(value) and all(map(_is_numeric, value)))
