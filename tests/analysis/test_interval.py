import itertools

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from tofu.analysis import AffineIndex, analyse, split_affine
from tofu.errors import NotAffineError
from tofu.tdl import describe, scatter
from tofu.tdl.expression import Index, extent_symbol, variable_symbol

EXTENT_I, EXTENT_J = extent_symbol("i.extent"), extent_symbol("j.extent")
i, j = (Index(variable_symbol(name)) for name in "ij")


@pytest.mark.parametrize(
    ("index", "interval"),
    [
        (i, (0, EXTENT_I - 1)),
        (i + 3, (3, EXTENT_I + 2)),
        (i - 3, (-3, EXTENT_I - 4)),
        (2 * i, (0, 2 * EXTENT_I - 2)),
        (-i, (1 - EXTENT_I, 0)),
        (i + j, (0, EXTENT_I + EXTENT_J - 2)),
        (i - j, (1 - EXTENT_J, EXTENT_I - 1)),
        (i * j.extent + j, (0, EXTENT_I * EXTENT_J - 1)),
    ],
    ids=str,
)
def test_intervals_of_figure_4(index, interval):
    assert split_affine(index).infer_interval() == interval


def test_stride_without_a_sign_is_refused():
    with pytest.raises(NotAffineError, match="whose sign is not known"):
        split_affine(i * (j.extent - 4)).infer_interval()


def test_shift_example_of_section_4_2():
    access = analyse(describe(lambda b: lambda i: b[i + 2]), {}, [(12,)], [(10,)])
    (row,) = access.inputs[0].rows
    assert row.terms == ((0, 1),)
    halves = [(row.lower + begin, row.upper + end - 1) for begin, end in ((0, 5), (5, 10))]
    assert halves == [(2, 7), (7, 12)]


strides = st.lists(st.integers(-4, 4), min_size=1, max_size=3)
extents = st.lists(st.integers(1, 5), min_size=3, max_size=3)


@settings(deadline=None)
@given(strides, extents, st.integers(-6, 6))
def test_intervals_are_the_hull_of_all_values(coefficients, sizes, constant):
    names = [f"v{n}" for n in range(len(coefficients))]
    index = AffineIndex(
        {n: sympy.Integer(c) for n, c in zip(names, coefficients, strict=True)}, sympy.Integer(constant)
    )
    interval = index.infer_interval()
    numbers = {extent_symbol(f"{n}.extent"): size for n, size in zip(names, sizes, strict=False)}
    points = itertools.product(*(range(size) for size in sizes[: len(names)]))
    values = [constant + sum(c * v for c, v in zip(coefficients, point, strict=True)) for point in points]
    assert tuple(end.subs(numbers) for end in interval) == (min(values), max(values))


@settings(deadline=None)
@given(
    stride=st.integers(1, 3),
    dilation=st.integers(1, 3),
    window=st.integers(1, 4),
    extent=st.integers(2, 7),
    data=st.data(),
)
def test_rows_are_the_hull_of_the_accessed_elements(stride, dilation, window, extent, data):
    begin = data.draw(st.integers(0, extent - 1))
    end = data.draw(st.integers(begin + 1, extent))
    size = (extent - 1) * stride + (window - 1) * dilation + 1
    spread = describe(lambda grad: scatter(lambda y, k: ((y * stride + k * dilation,), grad[y]), extents={"k": window}))
    access = analyse(spread, {}, [(extent,)], [(size,)])
    assert access.axes == ("y",)
    (row,) = access.outputs[0].rows
    cells = {y * stride + k * dilation for y in range(begin, end) for k in range(window)}
    assert row.terms == ((0, stride),)
    assert (row.lower + stride * begin, row.upper + stride * (end - 1)) == (min(cells), max(cells) + 1)
