import pytest

from tofu.analysis import analyse
from tofu.errors import DescriptionError
from tofu.jax.kernels.rule import parse_rule, read_rule
from tofu.tdl import Sum, describe

QUERY, KEY = (2, 6, 8, 4), (2, 3, 8, 4)


@pytest.mark.parametrize(
    ("text", "inputs", "outputs", "rule"),
    [
        ("b h _ _, b h _ _ -> b h _ _", [KEY, KEY], [KEY], "b h _ _, b h _ _ -> b h _ _"),
        ("b (h _) _ _,b h _ _->b (h _) _ _", [QUERY, KEY], [QUERY], "b (h 2) _ _, b h _ _ -> b (h 2) _ _"),
        ("i k, k j -> i j, ", [(2, 3), (3, 4)], [(2, 4), ()], "i k, k j -> i j, ()"),
        ("(), n -> n", [(), (5,)], [(5,)], "(), n -> n"),
    ],
)
def test_rules_are_parsed(text, inputs, outputs, rule):
    assert str(parse_rule(text, inputs, outputs)) == rule


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("b _, b _", r"has 0 arrows and needs 1(.|\n)*\"b h _ _, b h _ _ -> b h _ _\""),
        ("b * -> b _", r"'\*' in 'b \*' is neither a name nor _"),
        ("b _ _ -> b _", r"has 1 inputs of 3 dimensions, and the function has 1 of 2: shapes \(4, 6\)"),
        ("b _, b _ -> b _", "has 2 inputs of 2, 2 dimensions, and the function has 1 of 2"),
        ("_ _ -> _ _", "names no axis"),
        ("b b -> b _", "has two dimensions of b. Write _ for one"),
        ("b _ -> _ b", "axis b of .* has the extent 4 in one array and 6 in another. Use two names"),
        ("(b _) _ -> (b _) _", "the extent of b in .* is not known"),
    ],
)
def test_malformed_rules_are_refused_with_an_example(text, problem):
    with pytest.raises(DescriptionError, match=problem):
        parse_rule(text, [(4, 6)], [(4, 6)])


def test_the_gradient_of_a_shared_operand_is_a_sum():
    rule = parse_rule("i k, k j -> i j", [(2, 3), (3, 4)], [(2, 4)])
    assert str(rule.differentiate([True, True], [True])) == "i k, k j, i j -> i k, k j"
    rule = parse_rule("b _, _, b -> b _, b", [(2, 3), (3,), (2,)], [(2, 3), (2,)])
    assert str(rule.differentiate([True, True, False], [True, False])) == "b _, _, b, b _ -> b _, _"


def test_the_batch_axis_comes_first():
    rule = parse_rule("i _, _ j -> i j", [(2, 3), (3, 4)], [(2, 4)])
    assert str(rule.add_batch([True, False], "batch")) == "batch i _, _ j -> batch i j"


def test_rules_of_formulas_have_their_plain_axes():
    product = describe(lambda a, b: lambda i, j: Sum(lambda k: a[i, k] * b[k, j]))
    assert str(read_rule(analyse(product, {}, [(2, 3), (3, 4)], [(2, 4)]))) == "i k, k j -> i j"
    windows = describe(lambda x: lambda b, i: Sum(lambda k: x[b, i + k], extents={"k": 3}))
    assert str(read_rule(analyse(windows, {}, [(2, 6)], [(2, 4)]))) == "b _ -> b _"
