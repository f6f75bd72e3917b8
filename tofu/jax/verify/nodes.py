"""One equation alone, with the numbers of its operands and results: what descriptions and strategies are checked against.

Random keys are whole numbers of 64 bits here: what they hold, or, of keys that are wider, a number that stands for it.
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

from tdl_ops.jax.case import Case
from tofu.jax.frontend.attributes import read_attributes
from tofu.jax.frontend.equations import LOOP_CELL, LOOP_STACK, Equation, Literal, Step, ValueType, read_operand
from tofu.jax.frontend.trace import trace_step
from tofu.jax.frontend.versions import find_key_implementation
from tofu.verification.kernel import Array, Shape

DIMENSIONS = frozenset(
    ("axes", "axis", "broadcast_dimensions", "dimension", "dimension_numbers", "dimensions", "permutation")
)
"""Parameters whose numbers are dimensions, and no extents that may be as large as a part."""
LOOP_STEPS: Mapping[Any, Callable[..., Any]] = {
    LOOP_CELL: lambda equation, whole: whole[0],
    LOOP_STACK: lambda equation, cell: jnp.broadcast_to(cell, (equation.params["length"], *jnp.shape(cell))),
}
"""What a loop does with what it scans and puts together, as if it had the same in each of its steps: these are no primitives of JAX's."""


WIDE_KEYS: dict[int, tuple[int, ...]] = {}
"""The number of a key of more than 64 bits -> what it holds, of all that were read. 0 is the one of zeros."""


@dataclass(frozen=True)
class EquationCase:
    """An equation with whole operands and results. `types` are those of the operands that are no literals."""

    equation: Equation
    attributes: Mapping[str, Any]
    types: tuple[ValueType, ...]
    output_types: tuple[ValueType, ...]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]

    @property
    def op(self) -> str:
        """The primitive's name."""
        return str(self.equation.primitive.name)

    @property
    def has_keys(self) -> bool:
        """Whether there are random keys among its operands and results."""
        return any(type_.is_key for type_ in (*self.types, *self.output_types))

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """The parameters that may be as large as a part."""
        params = self.equation.params
        return {
            name: value
            for name, value in self.attributes.items()
            if name in params and name not in DIMENSIONS and _is_numeric(value)
        }

    def evaluate(self, operands: Sequence[Any], params: Mapping[str, Any] | None = None) -> list[Any]:
        """JAX's results for other operands, literals among them."""
        equation = (
            self.equation if params is None else replace(self.equation, params={**self.equation.params, **params})
        )
        stands_for = LOOP_STEPS.get(equation.primitive)
        return equation.evaluate(operands) if stands_for is None else [stands_for(equation, *operands)]

    def fill_operands(self, inputs: Sequence[Any]) -> list[Any]:
        """All operands: the inputs, as JAX has them, and the literals in their places."""
        rest = iter(inputs)
        return [x.value if isinstance(x, Literal) else next(rest) for x in self.equation.inputs]

    def make_inputs(self, inputs: Sequence[Array]) -> list[Any]:
        """Arrays in JAX's types."""
        return [make_array(array, type_) for array, type_ in zip(inputs, self.types, strict=True)]

    def run(self, values: Mapping[str, Any], inputs: Sequence[Array]) -> list[Array]:
        """The results for other parameters and operands."""
        return list(map(read_numbers, self.evaluate(self.fill_operands(self.make_inputs(inputs)), values)))

    def try_run(
        self, values: Mapping[str, Any], inputs: Sequence[Array], output_shapes: Sequence[Shape]
    ) -> list[Array] | None:
        """The results for other parameters and operands; None where JAX refuses them."""
        try:
            return self.run(values, inputs)
        except Exception:  # whatever a primitive says of operands that it does not take
            return None

    def infer(self, values: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...] | None:
        """The shapes of the results for other parameters and operands; None where JAX refuses them."""
        given = [jax.ShapeDtypeStruct(shape, type_.dtype) for shape, type_ in zip(shapes, self.types, strict=True)]
        try:
            with np.errstate(all="ignore"):  # strides of zero among the parameters that are tried
                made = jax.eval_shape(lambda *inputs: self.evaluate(self.fill_operands(inputs), values), *given)
        except Exception:  # as above
            return None
        return tuple(tuple(one.shape) for one in made)


def make_array(numbers: Array, type_: ValueType) -> Any:
    """Numbers as JAX has them."""
    if not type_.is_key:
        return jnp.asarray(numbers, type_.dtype)
    kind = find_key_implementation(type_.dtype)
    words = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=kind))).shape[-1]
    if words == 2:
        data = np.ascontiguousarray(numbers)[..., None].view(np.uint32)
    else:
        known = [WIDE_KEYS.get(int(number), (0,) * words) for number in numbers.flat]
        data = np.array(known, np.uint32).reshape(*numbers.shape, words)
    return jax.random.wrap_key_data(data, impl=kind)


def read_numbers(array: Any) -> Array:
    """What JAX has, as an array of NumPy's: of keys their numbers, which stand for them."""
    if not jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
        return np.asarray(array)
    data = np.ascontiguousarray(jax.random.key_data(array))
    if data.shape[-1] == 2:
        return data.view(np.uint64)[..., 0]
    numbers = [_number_key(tuple(map(int, words))) for words in data.reshape(-1, data.shape[-1])]
    return np.array(numbers, np.uint64).reshape(data.shape[:-1])


def _number_key(words: tuple[int, ...]) -> int:
    number = int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:8], "little") if any(words) else 0
    assert WIDE_KEYS.setdefault(number, words) == words, f"two keys have the number {number}"
    return number


def trace_case(case: Case, seed: int = 0) -> tuple[Step, list[Any]]:
    """A case's step, and its arguments."""
    arguments = list(map(jnp.asarray, case.draw_inputs(seed)))
    return trace_step(case.function, arguments)[0], arguments


def list_signatures(step: Step, primitives: Collection[str] = ()) -> Iterator[tuple[int, str, Equation]]:
    """Number the equations of a step, those of loops included, and yield those of some primitives, or all, each with its signature.

    Equations of one signature are verified in the same way.
    """
    for number, equation in enumerate(step.walk()):
        if not primitives or equation.primitive.name in primitives:
            operands = [x.number if isinstance(x, Literal) else step.types[x] for x in equation.inputs]
            yield number, f"{equation.primitive.name} {read_attributes(equation, step.types)} {operands}", equation


def make_node(step: Step, equation: Equation, known: Mapping[int, Any]) -> EquationCase:
    """An equation of a step whose values are known."""
    used = [x for x in equation.inputs if not isinstance(x, Literal)]
    node = EquationCase(
        equation,
        read_attributes(equation, step.types),
        tuple(step.types[x] for x in used),
        tuple(step.types[x] for x in equation.outputs),
        tuple(read_numbers(read_operand(x, known)) for x in used),
        (),
    )
    # A value of a loop is that of its last step, and what the loop puts together is that of all: the results are computed again.
    return replace(node, outputs=tuple(node.run({}, node.inputs)))


def _is_numeric(value: Any) -> bool:
    return type(value) is int or (isinstance(value, tuple) and bool(value) and all(map(_is_numeric, value)))
