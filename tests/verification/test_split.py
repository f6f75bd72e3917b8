import numpy as np
import pytest

from tdl_ops.jax import DESCRIPTIONS
from tofu.analysis import Combine, OutputAccess, Row, analyse
from tofu.verification.split import SplitError, combine_outputs, relative_error


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
