import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tofu.jax
from tofu.jax.frontend.extrema import find_compared_with_extremum
from tofu.jax.frontend.trace import trace_step
from tofu.jax.memory import read_worker_program

# Different multiples of an eighth: no product or sum below is rounded.
X = np.random.default_rng(0).permutation(32).reshape(4, 8) / 8 - 2
REDUCED = {"last": lambda x: jnp.max(x, 1), "first": lambda x: -jnp.min(x, 0), "all": lambda x: jnp.max(x)}


def differentiate(reduce):
    return lambda x: (x, jax.grad(lambda x: (reduce(3 * x + 1) ** 2).sum())(x))


@pytest.mark.parametrize("reduce", REDUCED.values(), ids=REDUCED)
def test_the_maximum_and_the_comparison_read_one_value(reduce):
    step = differentiate(reduce)
    made = tofu.jax.partition(step, 4, (X,))
    program = read_worker_program(made.partition.training)
    makers = {number: equation for equation in program.walk() for number in equation.outputs}
    (compared,) = (equation for equation in program.walk() if equation.primitive.name == "eq")
    (reduced,) = (equation for equation in program.walk() if equation.primitive.name in ("reduce_max", "reduce_min"))
    (value,) = reduced.inputs
    assert value in compared.inputs
    assert makers[value].primitive.name == "optimization_barrier"
    # One device, compiled, may lose the gradient of the maximum: the reference runs equation by equation.
    jax.tree.map(np.testing.assert_array_equal, made(X), step(X))


def test_other_comparisons_stay_as_they_are():
    def step(x):
        y = 3 * x
        numbers = (10 * x).astype(int)
        same = y == jnp.max(2 * x, 1, keepdims=True), numbers == jnp.max(numbers, 1, keepdims=True)
        return jax.nn.softmax(y), jnp.max(y), same

    assert not find_compared_with_extremum(trace_step(step, (X,))[0])
