"""Sums of products over dimensions that are named: einsum and tensordot of MXNet's NumPy interface, and their gradients.

The letters of einsum are the index variables; those of tensordot are a0 a1 ... and b0 b1 ... where they stay, r0 r1 ... where they are
summed.
"""

from __future__ import annotations

from collections import Counter
from math import prod

from tofu.errors import UnsupportedError
from tofu.tdl import Sum, constant, op, output


def _contract(terms, kept):
    """The product of tensors, each with the names of its dimensions, summed over all names that are not kept."""
    summed = list(dict.fromkeys(name for _, names in terms for name in names if name not in kept))

    def value(variables):
        at = dict(zip(kept, variables, strict=True))
        product = lambda *r: prod(
            (
                tensor[tuple((at | dict(zip(summed, r, strict=True)))[name] for name in names)]
                for tensor, names in terms
            ),
            start=constant(1.0),
        )
        return Sum(lambda *r: product(*r), names=" ".join(summed)) if summed else product()

    return output(" ".join(kept), lambda *v: value(v))


def _contract_backward(d_out, terms, kept):
    """The gradient by each of the tensors; a dimension that is one tensor's alone, and summed, has the same gradient all along."""

    def gradient(n):
        _, names = terms[n]
        others = [(d_out, kept), *(term for m, term in enumerate(terms) if m != n)]
        known = {name for _, given in others for name in given}
        if not known >= set(names):
            raise UnsupportedError(
                f"the gradient of a sum over {set(names) - known} alone is not described: sum that tensor first"
            )
        return _contract(others, names)

    return tuple(gradient(n) for n in range(len(terms)))


def _read_subscripts(operands, subscripts):
    """Each operand's letters, and those of the result."""
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
    return _contract(*_read_subscripts(operands, subscripts))


@op("_backward_npi_einsum")
def backward_einsum(d_out, *operands, subscripts):
    return _contract_backward(d_out, *_read_subscripts(operands, subscripts))


def _name_dimensions(a, b, a_axes, b_axes):
    def name(tensor, axes, letter):
        axes = [axis % tensor.ndim for axis in axes]
        return [f"r{axes.index(d)}" if d in axes else f"{letter}{d}" for d in range(tensor.ndim)]

    terms = [(a, name(a, a_axes, "a")), (b, name(b, b_axes, "b"))]
    return terms, [name for _, names in terms for name in names if not name.startswith("r")]


def _inner_axes(a, axes):
    """The last dimensions of the first tensor with the first ones of the second."""
    return range(a.ndim - axes, a.ndim), range(axes)


@op("_npi_tensordot")
def tensordot(a, b, *, a_axes_summed, b_axes_summed):
    return _contract(*_name_dimensions(a, b, a_axes_summed, b_axes_summed))


@op("_backward_npi_tensordot")
def backward_tensordot(d_out, a, b, *, a_axes_summed, b_axes_summed):
    return _contract_backward(d_out, *_name_dimensions(a, b, a_axes_summed, b_axes_summed))


@op("_npi_tensordot_int_axes")
def tensordot_inner(a, b, *, axes):
    return _contract(*_name_dimensions(a, b, *_inner_axes(a, axes)))


@op("_backward_npi_tensordot_int_axes")
def backward_tensordot_inner(d_out, a, b, *, axes):
    return _contract_backward(d_out, *_name_dimensions(a, b, *_inner_axes(a, axes)))
