from itertools import product

import numpy as np
import pytest

from tdl_ops.jax import DESCRIPTIONS
from tofu.analysis import Combine, OutputAccess, Row, analyse
from tofu.verification.split import SplitError, combine_outputs, cut_input, relative_error

PRODUCT = {"dimension_numbers": (((1,), (0,)), ((), ())), "input_types": ("float64",) * 2, "output_types": ("float64",)}


@pytest.mark.parametrize("names", [("m0", "n1"), ("m0", "k0"), ("k0", "n1"), ("k0",), ("n1", "k0", "m0")])
def test_products_are_split_along_several_axes(names):
    random = np.random.RandomState(0)
    x, w = random.uniform(-1, 1, (5, 7)), random.uniform(-1, 1, (7, 3))
    access = analyse(DESCRIPTIONS["dot_general"], PRODUCT, [x.shape, w.shape], [(5, 3)])
    axes = [access.axes.index(name) for name in names]
    splits = {axis: [(0, 2), (2, access.extents[axis])] for axis in axes}
    parts = [dict(zip(axes, ranges, strict=True)) for ranges in product(*splits.values())]

    def compute(part):
        operands = zip((x, w), access.inputs, strict=True)
        return np.dot(*(cut_input(array, read, part, access.extents) for array, read in operands))

    pieces = [compute(part) for part in parts]
    combined = combine_outputs(pieces, access.outputs[0], splits, access, (5, 3))
    assert relative_error(combined, x @ w) < 1e-12


def test_parts_outside_an_output_are_dropped():
    """One output has one row, so rows 3 and 4 of the other axis are beyond its end."""
    x = np.arange(20.0).reshape(5, 4)
    access = analyse(DESCRIPTIONS["split"], {"sizes": (1, 4), "axis": 0}, [x.shape], [(1, 4), (4, 4)])
    splits = {0: [(0, 3), (3, 5)], 1: [(0, 2), (2, 4)]}
    pieces = [x[:1, :2], x[:1, 2:], np.zeros((2, 2)), np.zeros((2, 2))]
    combined = combine_outputs(pieces, access.outputs[0], splits, access, (1, 4))
    np.testing.assert_array_equal(combined, x[:1])


def test_replicated_outputs_that_differ_are_found():
    access = analyse(DESCRIPTIONS["tanh"], {}, [(4,)], [(4,)])
    alike = OutputAccess((Row((), 0, 4),), (Combine.REPLICATE,), is_written=True)
    with pytest.raises(SplitError, match="replicated output differ"):
        combine_outputs([np.zeros(4), np.ones(4)], alike, {0: [(0, 2), (2, 4)]}, access, (4,))


def test_relative_errors_of_complex_numbers():
    expected = np.array([1 + 1j, 2.0])
    assert relative_error(expected, expected) == 0
    assert relative_error(np.array([1 - 1j, 2.0]), expected) == pytest.approx(1.0)
