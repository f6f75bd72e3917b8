"""The descriptions of JAX's primitives, one family a file, under the primitives' own names.

They are registered when the first of them is looked up. A primitive's attributes are its parameters as JAX has them, as far as they are
numbers, texts or tuples, and three that the front end adds (`tofu.jax.frontend.attributes`):

- `literals`: ((position of the operand, number), ...) of operands that are numbers in the program; they are no inputs of the operator;
- `input_types`, `output_types`: the names of the types of all operands, literals among them, and of all results.
"""

from tofu.tdl import Registry

DESCRIPTIONS = Registry(
    __name__,
    decorator="@tofu.jax.op",
    remedy='Describe the function that calls it (@tofu.jax.describe("b _, b _ -> b _"), see docs/jax.md)',
)
op = DESCRIPTIONS.op

# Described as what every worker computes whole: such a description claims nothing that could be wrong.
WHOLE = ("cond", "while", "pure_callback")
