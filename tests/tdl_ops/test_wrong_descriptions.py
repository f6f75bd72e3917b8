import numpy as np
import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.mxnet.verify import verify_operator
from tofu.tdl import Sum


@pytest.fixture
def replace_description(descriptions):
    def replace(name, function, **options):
        descriptions[name] = DESCRIPTIONS.describe(function, (name,), **options)

    return replace


def find_problems(op, attributes, inputs, **options):
    return verify_operator(op, attributes, inputs, **options).problems


@pytest.mark.parametrize("formula", [lambda a, b: lambda i, j: b[i, j] - a[i, j], lambda a, b: lambda i, j: a[i, j]])
def test_a_wrong_formula_is_caught_by_its_numbers(replace_description, formula):
    replace_description("elemwise_sub", formula)
    (problem,) = find_problems("elemwise_sub", {}, [(5, 7), (5, 7)], parts=(), wrt=())
    assert "of the description is off by" in problem


def test_unbound_attribute_is_caught_by_the_parts(replace_description):
    replace_description(
        "FullyConnected",
        lambda data, weight, bias, *, num_hidden: lambda b, h: Sum(lambda k: data[b, k] * weight[h, k]) + bias[h],
    )
    found = find_problems("FullyConnected", {"num_hidden": 5}, [(3, 7), (5, 7), (5,)], wrt=())
    assert any(problem.startswith("FullyConnected, split h: in 2 parts") for problem in found)


def test_forgotten_padding_of_the_parts_is_caught(replace_description):
    right = DESCRIPTIONS["Convolution"]
    bound = {**right.bound, "pad": lambda local: local.attributes["pad"]}
    replace_description("Convolution", right.function, bound=bound, pads=right.pads)
    attributes = {"kernel": (3,), "num_filter": 5, "pad": (1,), "no_bias": True}
    found = find_problems("Convolution", attributes, [(3, 2, 7), (5, 2, 3)], wrt=())
    assert found
    assert all(problem.startswith("Convolution, split y0") for problem in found)


def test_wrong_fill_is_caught(replace_description):
    right = DESCRIPTIONS["Pooling"]
    replace_description("Pooling", right.function, bound=right.bound, pads=right.pads)
    attributes = {"kernel": (3,), "pad": (1,), "pool_type": "max"}
    found = find_problems("Pooling", attributes, [-1 - np.random.RandomState(0).rand(3, 2, 7)], wrt=())
    assert any("split y0" in problem for problem in found)


def test_uncorrected_local_size_is_caught(replace_description):
    right = DESCRIPTIONS["_backward_SoftmaxOutput"]
    replace_description("_backward_SoftmaxOutput", right.function, corrects=right.corrects)
    found = find_problems(
        "SoftmaxOutput", {"normalization": "batch"}, [(5, 7), np.arange(5.0)], description_tolerance=1e-6
    )
    assert any(problem.startswith("_backward_SoftmaxOutput, split b0: the parts are off") for problem in found)


def test_hidden_dependence_between_cells_is_caught_by_the_parts(replace_description):
    replace_description("softmax", lambda data: lambda i, j: data[i, j])
    found = find_problems("softmax", {}, [(5, 7)], wrt=())
    assert any(problem.startswith("softmax, split j: the parts are off") for problem in found)


def test_state_of_another_part_is_caught(replace_description):
    """Read the state of another shard: without momentum the numbers are right, in the wrong place."""

    def update(turned):
        return lambda weight, grad, mom, *, lr: (
            lambda i: weight[i] - lr * grad[i] + 0 * mom[weight.shape[0] - 1 - i if turned else i]
        )

    arguments = "sgd_mom_update", {"lr": 0.125, "momentum": 0.0}, [(7,), (7,), (7,)]
    replace_description("sgd_mom_update", update(turned=False))
    assert find_problems(*arguments, wrt=()) == ()
    replace_description("sgd_mom_update", update(turned=True))
    assert any("split i: the parts are off" in problem for problem in find_problems(*arguments, wrt=()))


def test_undescribed_operator_is_a_problem(descriptions):
    del descriptions["tanh"]
    assert find_problems("tanh", {}, [(5, 7)])[0] == "tanh: it has no description"
