from itertools import cycle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.comparison import check_step
from tests.shared.random_plans import random_plan
from tofu.jax.frontend.versions import in_double_precision

PARAMETERS = {
    "stride beside dilation": ((4, 3, 8, 6), (2, 3, 3, 2), ((2, 1), ((1, 2), (0, 1)), (1, 2), (1, 1))),
    "stride and dilation": ((4, 2, 8, 6), (4, 2, 3, 3), ((2, 3), ((1, 2), (2, 2)), (2, 2), (1, 1))),
    "dilation beyond stride": ((4, 2, 6), (2, 2, 5), ((2,), ((1, 3),), (4,), (1,))),
    "stride beyond dilation": ((4, 2, 12), (2, 2, 5), ((4,), ((3, 2),), (2,), (2,))),
    "negative padding": ((4, 2, 9, 6), (4, 2, 2, 3), ((2, 1), ((-1, 2), (2, -1)), (1, 2), (2, 1))),
    "groups": ((4, 4, 8, 6), (4, 2, 3, 3), ((2, 1), ((1, 1), (1, 1)), (1, 2), (1, 1), None, 2)),
    "groups of the batch": ((4, 3, 6, 8), (4, 3, 3, 3), ((1, 2), ((1, 1), (1, 1)), (2, 1), (1, 1), None, 1, 2)),
}


def check_convolution(function, workers, *shapes):
    with in_double_precision():
        x, w = (np.random.default_rng(0).normal(size=shape) for shape in shapes)

        def step(x, w):
            out, pull = jax.vjp(function, x, w)
            return (out, *pull(jnp.cos(out)))

        searched = check_step(step, workers, x, w, rtol=1e-10, atol=1e-10)
        check_step(step, workers, x, w, plan=random_plan(searched.partition, workers), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("name", "workers"), list(zip(PARAMETERS, cycle([3, 4]), strict=False)))
def test_convolutions_and_gradients_equal_one_device(name, workers):
    *shapes, parameters = PARAMETERS[name]
    check_convolution(lambda x, w: lax.conv_general_dilated(x, w, *parameters), workers, *shapes)


def test_a_transposed_convolution_equals_one_device():
    check_convolution(lambda x, w: lax.conv_transpose(x, w, (2, 3), "SAME"), 4, (4, 4, 3, 4), (3, 5, 4, 2))


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
