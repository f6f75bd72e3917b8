import pytest

from tofu.analysis import analyse, find_dimension, find_neutral, find_uneven_axes
from tofu.tdl import Max, Prod, Sum, describe, scatter

X = (7, 5)


def analyse_one(function, *shapes, outputs):
    return analyse(describe(function), {}, list(shapes), outputs)


def test_elementwise_axes_may_overlap():
    access = analyse_one(lambda x: lambda i, j: x[i, j] * 2, X, outputs=[X])
    assert find_uneven_axes(access) == (0, 1)
    assert [find_neutral(access, axis) for axis in (0, 1)] == [None, None]


@pytest.mark.parametrize(("reducer", "neutral"), [(Sum, 0), (Prod, 1), (Max, None)])
def test_reductions_need_a_neutral_element(reducer, neutral):
    access = analyse_one(lambda x: lambda i: reducer(lambda k: x[k, i]), X, outputs=[(5,)])
    axis = access.axes.index("k")
    assert find_uneven_axes(access) == tuple(range(len(access.axes)))
    assert find_neutral(access, axis) == neutral
    assert find_dimension(access.inputs[0].rows, axis) == 0


def test_axes_of_windows_may_not_overlap():
    reaching = analyse_one(lambda x: scatter(lambda i, k: ((i * 2 + k,), x[i]), {"k": 3}), (5,), outputs=[(11,)])
    assert reaching.axes == ("i",)
    assert find_uneven_axes(reaching) == ()
    summed = analyse_one(lambda x, y: lambda k: Sum(lambda i: x[i * 2 + k] * y[i]), (11,), (5,), outputs=[(3,)])
    reduced = [axis for axis in range(len(summed.axes)) if find_neutral(summed, axis) is not None]
    assert reduced
    assert not set(reduced) & set(find_uneven_axes(summed))
