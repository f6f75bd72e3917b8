"""Strategies that a description hides from the analysis are found."""

import numpy as np
import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.mxnet.verify import Case, find_missing, uniform
from tofu.tdl import Opaque, output, unwritten
from tofu.verification.cuts import list_splits

ADDITION = Case("elemwise_add", {}, [(5, 7), (5, 7)], wrt=())
PRODUCT = Case("dot", {}, [(3, 5), (5, 7)], wrt=())


def hide(descriptions, name, function, **options):
    descriptions[name] = DESCRIPTIONS.describe(function, (name,), **options)


def find_cuts(case):
    return [repr(missing.cut) for missing in find_missing(case)]


def test_complete_descriptions_miss_nothing():
    assert find_cuts(ADDITION) == []
    assert find_cuts(PRODUCT) == []


def test_a_hidden_dimension_is_found(descriptions):
    add = Opaque(lambda lhs, rhs: lhs + rhs)
    hide(descriptions, "elemwise_add", lambda lhs, rhs: lambda i, j: add(lhs[i, :], rhs[i, :])[j])
    assert find_cuts(ADDITION) == ["inputs (dimension 1, dimension 1) -> concatenated along 1"]


def test_a_hidden_sum_is_found(descriptions):
    product = Opaque(np.dot)
    hide(descriptions, "dot", lambda lhs, rhs: lambda i, j: product(lhs[i, :], rhs[:, j])[()])
    assert find_cuts(PRODUCT) == ["inputs (dimension 1, dimension 0) -> reduced"]


def test_attributes_shrink_with_the_parts(descriptions):
    repeat = Opaque(np.broadcast_to)
    hide(descriptions, "broadcast_to", lambda data, *, shape: lambda i, j: repeat(data[:, :])[i, j])
    case = Case("broadcast_to", {"shape": (5, 7)}, [(5, 1)], wrt=())
    assert find_cuts(case) == ["inputs (dimension 0) -> concatenated along 0", "inputs (whole) -> concatenated along 1"]


def test_a_gradient_is_cut_as_its_operator(descriptions):
    hidden = Opaque()
    hide(descriptions, "_backward_tanh", lambda d_out, out: lambda i, j: hidden(d_out[:, :], out[:, :])[i, j])
    missing = find_missing(Case("tanh", {}, [(5, 7)]))
    assert {(strategy.op, strategy.cut.inputs) for strategy in missing} == {
        ("_backward_tanh", (0, 0)),
        ("_backward_tanh", (1, 1)),
    }


CONVOLUTION = {"kernel": (3,), "num_filter": 2, "no_bias": True}


def hide_windows(descriptions, name):
    hidden = Opaque()

    def description(data, *others, output_shapes):
        whole = [tensor[(slice(None),) * tensor.ndim] for tensor in others]
        value = output("b *i", lambda b, *i: hidden(data[(b, *(slice(None),) * (data.ndim - 1))], *whole)[i])
        return (value, unwritten("b *i", is_scratch=True))[: len(output_shapes)]

    hide(descriptions, name, description)


@pytest.mark.parametrize(
    "case",
    [
        Case("Convolution", {**CONVOLUTION, "pad": (1,)}, [(2, 3, 7), (2, 3, 3)], ()),
        Case("Convolution", {**CONVOLUTION, "stride": (2,)}, [(2, 3, 9), (2, 3, 3)], ()),
        Case("Pooling", {"kernel": (3,), "pad": (1,), "pool_type": "max"}, [uniform(-2, -1, 2, 3, 7)], ()),
    ],
    ids=["padded", "of another extent", "of a maximum"],
)
def test_hidden_windows_are_found(case, descriptions):
    assert find_cuts(case) == []
    hide_windows(descriptions, case.op)
    whole = ", whole" * (len(case.inputs) - 1)
    assert any(cut.startswith(f"inputs (dimension 2{whole}) -> concatenated along 2") for cut in find_cuts(case))


def test_even_extents_are_split_unevenly_too():
    assert list_splits(4) == (((0, 1), (1, 4)), ((0, 3), (3, 4)), ((0, 1), (1, 2), (2, 4)))
    assert list_splits(2) == (((0, 1), (1, 2)),)
    assert ((0, 2), (2, 5)) in list_splits(5)
