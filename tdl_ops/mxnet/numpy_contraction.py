"""einsum and tensordot of MXNet's NumPy interface, and their gradients.

The letters of einsum are the index variables. Tensordot keeps a0 a1 ... and b0 b1 ..., and sums over r0 r1 ....
"""

from collections import Counter

from tdl_ops.mxnet import op
from tdl_ops.patterns.contraction import contract, contract_backward
from tofu.errors import UnsupportedError
from tofu.tdl import output, unread


def _read_subscripts(operands, subscripts):
    given, arrow, result = subscripts.replace(" ", "").partition("->")
    letters = given.split(",")
    if not subscripts.replace(" ", "").replace(",", "").replace("->", "").isalpha() or any(
        len(set(names)) < len(names) for names in (*letters, result)
    ):
        raise UnsupportedError(
            f"einsum({subscripts!r}) is not described: letters that differ within each tensor are, no ellipsis"
        )
    counted = Counter("".join(letters))
    kept = result if arrow else sorted(name for name, count in counted.items() if count == 1)
    return [(operand, list(names)) for operand, names in zip(operands, letters, strict=True)], list(kept)


@op("_npi_einsum")
def einsum(*operands, subscripts):
    return contract(*_read_subscripts(operands, subscripts))


@op("_backward_npi_einsum")
def backward_einsum(d_out, *operands, subscripts):
    terms, kept = _read_subscripts(operands, subscripts)
    if len(terms) == 1 and set(terms[0][1]) == set(kept):
        return _order_backward(d_out, *terms[0], kept)
    return contract_backward(d_out, terms, kept)


def _order_backward(d_out, data, names, kept):
    # The kernel takes `data`, and reads only its shape.
    at = lambda v: tuple(v[names.index(name)] for name in kept)
    return output(" ".join(names), lambda *v: d_out[at(v)] + unread(data[v]))


def _name_dimensions(a, b, a_axes, b_axes):
    def name(tensor, axes, letter):
        axes = [axis % tensor.ndim for axis in axes]
        return [f"r{axes.index(d)}" if d in axes else f"{letter}{d}" for d in range(tensor.ndim)]

    terms = [(a, name(a, a_axes, "a")), (b, name(b, b_axes, "b"))]
    return terms, [name for _, names in terms for name in names if not name.startswith("r")]


def _inner_axes(a, axes):
    return range(a.ndim - axes, a.ndim), range(axes)


@op("_npi_tensordot")
def tensordot(a, b, *, a_axes_summed, b_axes_summed):
    return contract(*_name_dimensions(a, b, a_axes_summed, b_axes_summed))


@op("_backward_npi_tensordot")
def backward_tensordot(d_out, a, b, *, a_axes_summed, b_axes_summed):
    return contract_backward(d_out, *_name_dimensions(a, b, a_axes_summed, b_axes_summed))


@op("_npi_tensordot_int_axes")
def tensordot_inner(a, b, *, axes):
    return contract(*_name_dimensions(a, b, *_inner_axes(a, axes)))


@op("_backward_npi_tensordot_int_axes")
def backward_tensordot_inner(d_out, a, b, *, axes):
    return contract_backward(d_out, *_name_dimensions(a, b, *_inner_axes(a, axes)))
