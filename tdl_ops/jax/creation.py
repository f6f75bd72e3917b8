"""Describe JAX operations that create tensors from numbers or smaller tensors."""

from tdl_ops.jax import op
from tdl_ops.jax.operands import AXES, numbered
from tofu.tdl import constant, output, position

SHAPE = {"shape": lambda local: local.outputs[0].shape}


def _local_first(local):
    return local.attributes["first"] + local.start(f"i{local.attributes['dimension']}")


@op("iota", concrete=True, starts=AXES, bound=SHAPE | {"first": _local_first})
def iota(*, output_shapes, shape, dimension, first=0):
    return output(numbered("i", len(output_shapes[0])), lambda *i: position(i[dimension]) + first)


@op("empty", concrete=True, bound=SHAPE)
def empty(*, output_shapes, shape):
    return output(numbered("i", len(output_shapes[0])), lambda *i: constant(0))


@op("empty2", concrete=True)
def empty2(*, output_shapes):  # a value that a branch omits and that its gradient does not read
    return output("", lambda: constant(0))


@op("broadcast_in_dim", concrete=True, bound=SHAPE)
def broadcast_in_dim(operand=None, *, output_shapes, shape, broadcast_dimensions, literals=()):
    names = numbered("i", len(output_shapes[0]))
    if operand is None:
        return output(names, lambda *i: constant(dict(literals)[0]))
    own = lambda i: tuple(0 if operand.is_one(n) else i[d] for n, d in enumerate(broadcast_dimensions))
    return output(names, lambda *i: operand[own(i)])
