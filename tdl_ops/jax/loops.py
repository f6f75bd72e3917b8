"""Describe the operators of loops: take the element of an array for one iteration, or stack the results.

Every worker runs all iterations of a loop. Every worker computes the primitives in `WHOLE` completely: loops of
unknown length, Python callbacks, and branches that contain one of these.
"""

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
