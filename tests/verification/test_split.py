"""Parts of several axes at a time: what they read, and what they are together."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tdl_ops.jax import DESCRIPTIONS
from tofu.analysis import Combine, OutputAccess, Row, analyse
from tofu.verification.split import SplitError, combine_outputs, cut_input, relative_error

PRODUCT = {"dimension_numbers": (((1,), (0,)), ((), ())), "input_types": ("float64",) * 2, "output_types": ("float64",)}


@pytest.mark.parametrize("names", [("m0", "n1"), ("m0", "k0"), ("k0", "n1"), ("k0",), ("n1", "k0", "m0")])
def test_parts_of_a_product_along_several_axes(names):
    random = np.random.RandomState(0)
    x, w = random.uniform(-1, 1, (5, 7)), random.uniform(-1, 1, (7, 3))
    access = analyse(DESCRIPTIONS["dot_general"], PRODUCT, [x.shape, w.shape], [(5, 3)])
    axes = [access.axes.index(name) for name in names]
    splits = {axis: [(0, 2), (2, access.extents[axis])] for axis in axes}
    parts = [dict(zip(axes, ranges, strict=True)) for ranges in product(*splits.values())]
    cut = lambda part: [cut_input(a, one, part, access.extents) for a, one in zip((x, w), access.inputs, strict=True)]  # noqa: E731
    pieces = [np.dot(*cut(part)) for part in parts]
    together = combine_outputs(pieces, access.outputs[0], splits, access, (5, 3))
    assert relative_error(together, x @ w) < 1e-12


def test_parts_of_which_all_of_one_lie_outside():
    """Rows 3 and 4 of an output that has one: those of the second and third part of another axis are beyond its end."""
    x = np.arange(20.0).reshape(5, 4)
    whole = analyse(DESCRIPTIONS["split"], {"sizes": (1, 4), "axis": 0}, [x.shape], [(1, 4), (4, 4)])
    splits = {0: [(0, 3), (3, 5)], 1: [(0, 2), (2, 4)]}
    pieces = [x[:1, :2], x[:1, 2:], np.zeros((2, 2)), np.zeros((2, 2))]
    together = combine_outputs(pieces, whole.outputs[0], splits, whole, (1, 4))
    np.testing.assert_array_equal(together, x[:1])


def test_parts_that_should_be_alike_and_are_not():
    whole = analyse(DESCRIPTIONS["tanh"], {}, [(4,)], [(4,)])
    alike = OutputAccess((Row((), 0, 4),), (Combine.REPLICATE,), is_written=True)
    with pytest.raises(SplitError, match="replicated output differ"):
        combine_outputs([np.zeros(4), np.ones(4)], alike, {0: [(0, 2), (2, 4)]}, whole, (4,))


def test_errors_of_complex_numbers():
    whole = np.array([1 + 1j, 2.0])
    assert relative_error(whole, whole) == 0
    assert relative_error(np.array([1 - 1j, 2.0]), whole) == pytest.approx(1.0)
