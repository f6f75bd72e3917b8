"""What stands in a loop's body beside JAX's own primitives (`tofu.jax.frontend.equations`): cells of what is scanned, and results put
together. The dimension of the steps is never split: every worker takes all of them.

A loop of unknown length and a call of Python are computed whole by every worker, and so are branches with one of them in them.
"""

from __future__ import annotations

from tdl_ops.jax import WHOLE, op
from tdl_ops.jax.operands import cell, numbered, put_together
from tofu.tdl import Any, Opaque, output


@op("loop_cell")
def loop_cell(whole):
    return lambda *i: whole[(Any(0), *i)]


@op("loop_stack")
def loop_stack(*cells, length, literals=()):
    (one,) = put_together(cells, literals)
    axes = numbered("i", one.ndim) if cells else ""
    return output(f"t {axes}", lambda t, *i: one[i] if cells else cell(one, i), extents={"t": length})


def _describe_whole(name):
    """A description of what is not split: each cell of the results comes from all that is read."""

    def description(*operands, output_shapes, literals=()):
        def result(n):
            part = Opaque(None, name)
            own = {f"r{n}_{d}": extent for d, extent in enumerate(output_shapes[n])}
            whole = [x[(slice(None),) * x.ndim] for x in operands]
            return output(" ".join(own), lambda *i: part(*whole)[i], own)

        return tuple(map(result, range(len(output_shapes))))

    return description


for _name in WHOLE:
    op(_name, concrete=True)(_describe_whole(_name))
