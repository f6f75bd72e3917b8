"""Sums of products of tensors with named dimensions, as in einsum, tensordot and dot, and their gradients."""

from functools import reduce
from operator import mul

from tofu.errors import UnsupportedError
from tofu.tdl import Sum, output


def contract(terms, kept):
    """Return the product of tensors, summed over all dimensions that are not in `kept`.

    `terms` are pairs (tensor, names of its dimensions), as in einsum.
    """
    summed = list(dict.fromkeys(name for _, names in terms for name in names if name not in kept))

    def value(variables):
        at = dict(zip(kept, variables, strict=True))
        cell = lambda names, r: tuple((at | dict(zip(summed, r, strict=True)))[name] for name in names)
        product = lambda *r: reduce(mul, (tensor[cell(names, r)] for tensor, names in terms))
        return Sum(lambda *r: product(*r), names=" ".join(summed)) if summed else product()

    return output(" ".join(kept), lambda *v: value(v))


def contract_backward(d_out, terms, kept):
    """Return the gradients of `contract` with respect to each tensor.

    Raise UnsupportedError if only one tensor has a summed dimension.
    """

    def gradient(n):
        _, names = terms[n]
        others = [(d_out, kept), *(term for m, term in enumerate(terms) if m != n)]
        known = {name for _, given in others for name in given}
        if not known >= set(names):
            raise UnsupportedError(
                f"the gradient of a sum over {set(names) - known} alone is not described: sum that tensor first"
            )
        return contract(others, names)

    return tuple(gradient(n) for n in range(len(terms)))
