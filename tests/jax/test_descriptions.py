"""Every equation of small functions and their gradients: what its description computes against what the primitive does."""

from __future__ import annotations

import numpy as np
import pytest

from tdl_ops.jax import DESCRIPTIONS
from tests.jax.cases import CASES
from tofu.jax.frontend.attributes import read_attributes
from tofu.jax.frontend.equations import Literal
from tofu.jax.frontend.trace import trace_step
from tofu.tdl import interpret

# Their descriptions say on what each cell depends, and not how the numbers come about; a key has none.
OPAQUE = {
    "loop_cell",
    "loop_stack",
    "random_bits",
    "random_fold_in",
    "random_seed",
    "random_split",
    "random_unwrap",
    "random_wrap",
}


def has_numbers(step, equation):
    """Whether its description computes its results, and none of its operands is a key."""
    used = [x for x in equation.inputs if not isinstance(x, Literal)]
    is_key = any(step.types[x].is_key for x in (*used, *equation.outputs))
    return not is_key and equation.primitive.name not in OPAQUE


def list_distinct(step):
    """The equations of a step that have numbers, each primitive once with the same parameters, literals and types."""
    seen = set()
    for equation in step.walk():
        inputs = [x.number if isinstance(x, Literal) else step.types[x] for x in equation.inputs]
        signature = f"{equation.primitive.name} {read_attributes(equation, step.types)} {inputs}"
        if signature not in seen and has_numbers(step, equation):
            yield equation
        seen.add(signature)


def compare_equation(step, equation, values):
    """Whether the description gives what the primitive gives, within float32."""
    inputs = [np.asarray(values[x], np.float64) for x in equation.inputs if not isinstance(x, Literal)]
    wanted = [np.asarray(values[x], np.float64) for x in equation.outputs]
    attributes = read_attributes(equation, step.types)
    found = interpret(DESCRIPTIONS[equation.primitive.name], attributes, inputs, [array.shape for array in wanted])
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4, err_msg=f"{equation} {attributes}")


@pytest.mark.parametrize("name", CASES)
def test_descriptions_compute_what_primitives_do(name):
    function, *arguments = CASES[name]
    step, _ = trace_step(function, arguments)
    values = step.compute_all(arguments)
    for equation in list_distinct(step):
        compare_equation(step, equation, values)


def test_every_description_is_compared_or_opaque():
    seen = set(OPAQUE)
    for function, *arguments in CASES.values():
        step, _ = trace_step(function, arguments)
        seen |= {equation.primitive.name for equation in step.walk()}
    assert set(DESCRIPTIONS) - seen == set()
