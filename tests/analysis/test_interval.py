import itertools
import re

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from tofu.analysis import AffineIndex, Interval, analyse, split_affine
from tofu.errors import NotAffineError
from tofu.tdl import describe, scatter
from tofu.tdl.expression import Index, extent_symbol, variable_symbol

X, Y = extent_symbol("x.extent"), extent_symbol("y.extent")
i, j = (Index(variable_symbol(name)) for name in "ij")


def test_arithmetic_of_figure_4():
    x, y = Interval.whole_range("x"), Interval.whole_range("y")
    assert (x + 3).vector([X]) == (0, 1, 3, 2)
    assert (x - 3).vector([X]) == (0, 1, -3, -4)
    assert (x * 2).vector([X]) == (0, 2, 0, -2)
    assert (x / 2).vector([X]) == (0, sympy.Rational(1, 2), 0, -sympy.Rational(1, 2))
    assert (x + y).vector([X, Y]) == (0, 0, 1, 1, 0, -2)
    assert (x - y).vector([X, Y]) == (0, -1, 1, 0, 1, -1)
    assert repr(x * -1) == "[1 - x.extent, 0]"


def test_operations_beyond_figure_4_are_refused():
    x = Interval.whole_range("x")
    for operation in (lambda: x * x, lambda: x / x, lambda: x < x, lambda: x * (X - 4)):
        with pytest.raises(NotAffineError, match=re.escape("(paper section 4.2, Figure 4)")):
            operation()


def test_shift_example_of_section_4_2():
    half = sympy.Rational(1, 2)
    shifted = split_affine(i + 2)
    extent = extent_symbol("i.extent")
    regions = [shifted.infer_interval({"i": Interval.part("i", *part)}) for part in ((0, half), (half, 1))]
    assert [repr(region) for region in regions] == ["[2, i.extent/2 + 1]", "[i.extent/2 + 2, i.extent + 1]"]
    assert [(r.lower.subs({extent: 10}), r.upper.subs({extent: 10})) for r in regions] == [(2, 6), (7, 11)]


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
    assert (interval.lower.subs(numbers), interval.upper.subs(numbers)) == (min(values), max(values))


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
