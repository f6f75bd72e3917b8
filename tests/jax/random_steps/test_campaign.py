"""A few random steps under transformations, compared with one device."""

import jax
import numpy as np
import pytest

from tests.jax.random_steps.campaign import find_difference, make_case, run_case


@pytest.mark.parametrize("seed", range(6))
def test_transformed_random_steps_equal_one_device(seed):
    case = make_case(seed)
    assert run_case(case) == ("same", ""), case


def test_differences_are_found():
    x = np.linspace(-1, 1, 8)
    assert not find_difference(x * (1 + 1e-13), x, x, 1e-9)
    assert "leaf 0: 1 of 8 differ, at (3,)" in find_difference(x + 1e-6 * (np.arange(8) == 3), x, x, 1e-9)
    assert "expected float64" in find_difference(x.astype("float32"), x, x, 1e-9)
    assert "tree" in find_difference([x], (x,), (x,), 1e-9)
    assert find_difference(np.int32(3), np.int32(4), np.int32(4), 1e-9)
    gone = np.zeros(2, jax.dtypes.float0)
    assert not find_difference(gone, gone, gone, 1e-9)
