"""Describe JAX's primitives (basic operations). Each file has one family. A description has its primitive's name.

Descriptions are registered when the first one is looked up. They read a primitive's parameters (numbers, strings and
tuples), and three attributes that the front end adds (`tofu.jax.frontend.attributes`):

- `literals`: pairs of a position and a number, for operands that are numbers in the program and not tensors;
- `input_types`, `output_types`: the names of the types of all operands, including literals, and of all results.
"""

from tofu.tdl import Registry

DESCRIPTIONS = Registry(
    __name__,
    decorator="@tofu.jax.op",
    remedy='Describe the function that calls it (@tofu.jax.describe("b _, b _ -> b _"), see docs/add-operator.md)',
)
op = DESCRIPTIONS.op

# Primitives that every worker computes completely. Their descriptions claim nothing that could be wrong.
WHOLE = ("cond", "while", "pure_callback")
