import jax.numpy as jnp
import pytest
from jax import lax

import tofu.jax


@pytest.mark.parametrize(
    ("parameters", "axes"),
    [
        (((2,), ((1, 2),), (1,), (1,)), {"y0", "d0"}),
        (((1,), ((1, 2),), (2,), (1,)), {"x0", "d0"}),
        (((2,), ((1, 2),), (2,), (1,)), {"y0"}),
        (((2,), ((1, 2),), (4,), (1,)), {"x0"}),
        (((2,), ((1, 2),), (3,), (1,)), set()),
    ],
)
def test_spatial_axes_are_split_if_strides_and_dilations_fit(parameters, axes):
    x, w = jnp.ones((4, 2, 8)), jnp.ones((4, 2, 5))
    made = tofu.jax.partition(lambda x, w: lax.conv_general_dilated(x, w, *parameters), 2, (x, w))
    (access,) = made.partition.problem.accesses
    assert set(access.axes) - {"b", "co", "ci"} == axes
