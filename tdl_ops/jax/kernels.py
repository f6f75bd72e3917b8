"""Describe kernels: operators with a split rule instead of a formula.

A rule defines which dimensions can be split together. The attributes `split_inputs` and `split_outputs`, which
`tofu.jax.kernels` provides, describe each dimension of each tensor:

- `(axis, size)`: the dimension has `size` elements for each position of an axis;
- `()`: every worker needs or computes the complete dimension.

An output that lacks an axis is a sum over it. If no axis can be split, `refused` is the reason.
"""

from tdl_ops.jax import op
from tofu.errors import UnsupportedError
from tofu.tdl import Index, Opaque, Sum, merge, output

KERNELS = ("pallas_call", "dot_product_attention_fwd_wrapper", "dot_product_attention_bwd_wrapper")
"""JAX primitives for which the front end finds a split rule."""


def split_by_rule(*operands, split_inputs, split_outputs, output_shapes, refused=""):
    if refused:
        raise UnsupportedError(refused)
    extents = {}
    for operand, dimensions in zip(operands, split_inputs, strict=True):
        for extent, dimension in zip(operand.extents, dimensions, strict=True):
            if dimension:
                axis, size = dimension
                extents.setdefault(axis, Index(extent) if size == 1 else Index(extent) // size)
    return tuple(
        _describe_output(n, dimensions, shape, operands, split_inputs, extents)
        for n, (dimensions, shape) in enumerate(zip(split_outputs, output_shapes, strict=True))
    )


def _describe_output(number, dimensions, shape, operands, split_inputs, extents):
    pattern, inner = [], {}
    for d, (dimension, size) in enumerate(zip(dimensions, shape, strict=True)):
        axis, own = dimension or ("", size)
        name = f"r{number}_{d}"
        if own > 1 or not axis:
            inner[name] = own
        pattern.append(f"({axis} {name})" if axis and own > 1 else axis or name)
    names = " ".join(pattern).replace("(", "").replace(")", "").split()
    summed = [axis for axis in extents if axis not in names]

    def compute(at):
        parts = [_read(x, n, split_inputs[n], at) for n, x in enumerate(operands)]
        return Opaque(None, "the kernel")(*parts)[tuple(at[name] for name in inner)]

    def value(*indices):
        at = dict(zip(names, indices, strict=True))
        if not summed:
            return compute(at)
        body = lambda *others: compute({**at, **dict(zip(summed, others, strict=True))})
        return Sum(body, names=" ".join(summed), extents={axis: extents[axis] for axis in summed})

    return output(" ".join(pattern), value, inner)


def _read(operand, number, dimensions, at):
    # The result is a slice, or a sum over a slice if an axis has several elements at each position.
    if all(not dimension or dimension[1] == 1 for dimension in dimensions):
        return operand[tuple(at[dimension[0]] if dimension else slice(None) for dimension in dimensions)]
    inner = {
        f"k{number}_{d}": dimension[1] if dimension else operand.shape[d]
        for d, dimension in enumerate(dimensions)
        if not dimension or dimension[1] > 1
    }

    def element(*variables):
        own = dict(zip(inner, variables, strict=True))
        outer = [at[dimension[0]] if dimension else None for dimension in dimensions]
        both = [[v for v in (axis, own.get(f"k{number}_{d}")) if v is not None] for d, axis in enumerate(outer)]
        return operand[tuple(merge(*v) if len(v) > 1 else v[0] for v in both)]

    return Sum(element, names=" ".join(inner), extents=inner)


for _name in KERNELS:
    op(_name, concrete=True)(split_by_rule)
