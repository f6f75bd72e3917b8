"""Descriptions of JAX's primitives, one family a file, under the primitives' own names.

They are registered at the first lookup. The attributes of a primitive are its parameters that are numbers, strings
or tuples, and three that the front end adds (`tofu.jax.frontend.attributes`):

- `literals`: ((position of the operand, number), ...) for operands that are numbers in the program and not inputs of
  the operator;
- `input_types`, `output_types`: the names of the types of all operands, including literals, and of all results.
"""

from tofu.tdl import Registry

DESCRIPTIONS = Registry(
    __name__,
    decorator="@tofu.jax.op",
    remedy='Describe the function that calls it (@tofu.jax.describe("b _, b _ -> b _"), see docs/add-operator.md)',
)
op = DESCRIPTIONS.op

# Replicated on every worker. Such a description claims nothing that could be wrong.
WHOLE = ("cond", "while", "pure_callback")
