"""What stands in a loop's body beside JAX's own primitives (`tofu.jax.frontend.equations`): cells of what is scanned, and results put
together. The dimension of the steps is never split: every worker takes all of them.
"""

from __future__ import annotations

from tdl_ops.jax import op
from tdl_ops.jax.operands import cell, numbered, put_together
from tofu.tdl import Any, output


@op("loop_cell")
def loop_cell(whole):
    return lambda *i: whole[(Any(0), *i)]


@op("loop_stack")
def loop_stack(*cells, length, literals=()):
    (one,) = put_together(cells, literals)
    axes = numbered("i", one.ndim) if cells else ""
    return output(f"t {axes}", lambda t, *i: one[i] if cells else cell(one, i), extents={"t": length})
