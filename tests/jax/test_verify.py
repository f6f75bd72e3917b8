"""Verification of the descriptions of JAX's primitives: what is true passes, and planted falsehoods are found."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tdl_ops.jax import DESCRIPTIONS
from tdl_ops.jax import random as of_keys
from tdl_ops.jax.case import Case
from tdl_ops.jax.lacking import list_lacking
from tofu import tdl
from tofu.command_line.main import main
from tofu.jax.backend import local_calls
from tofu.jax.frontend.versions import in_double_precision
from tofu.jax.verify import primitives
from tofu.jax.verify.campaign import list_wanted, load_cases, verify_case
from tofu.jax.verify.nodes import trace_case
from tofu.jax.verify.summary import summarize


@pytest.fixture
def descriptions(monkeypatch):
    """The descriptions as a dict, which a test may change."""
    monkeypatch.setattr(DESCRIPTIONS, "_described", DESCRIPTIONS.copy())
    return DESCRIPTIONS._described


def falsify(descriptions, name, function, **options):
    descriptions[name] = DESCRIPTIONS.describe(function, (name,), **options)


def verify(name, primitive, search=False):
    """The problems of a primitive in one case."""
    case = load_cases()[name]
    result = verify_case(case, list_wanted([case], [primitive])[name], search=search)
    assert result.verified
    return list(result.problems)


@cache
def trace_cases():
    """The step of each case, by its name."""
    with in_double_precision():
        return {case.name: trace_case(case)[0] for case in load_cases().values()}


def list_signatures():
    """Where each described primitive occurs: in how many equations' company, in which case, and the number of the equation."""
    found = defaultdict(list)
    for name, step in trace_cases().items():
        equations = list(step.walk())
        for number, equation in enumerate(equations):
            found[equation.primitive.name].append((len(equations), name, number))
    return found


def test_every_description_has_a_case_and_holds_at_one_of_its_signatures(monkeypatch):
    """At one in a shortest case, in two parts; `python -m tofu verify --jax` takes them all, and searches what is missing."""
    monkeypatch.setattr(primitives, "PARTS", (2,))
    found = list_signatures()
    there = DESCRIPTIONS.built_in - list_lacking()
    assert there - found.keys() == set()
    chosen = defaultdict(set)
    for name in sorted(there):
        _, case, number = min(found[name])
        chosen[case].add(number)
    results = [verify_case(load_cases()[name], numbers, search=False) for name, numbers in chosen.items()]
    assert {result.case: result.problems for result in results if result.problems} == {}
    assert {one.report.op for result in results for one in result.verified} >= there


def test_the_page_says_how_many_are_described():
    page = (Path(__file__).parents[2] / "docs" / "jax.md").read_text()
    assert len(DESCRIPTIONS.built_in) > int(re.search(r"more than (\d+) are described", page)[1]) >= 170


def test_a_false_formula_is_found(descriptions):
    falsify(descriptions, "tanh", lambda x: lambda *i: tdl.sinh(x[i]))
    (problem,) = verify("single precision", "tanh")
    assert problem.startswith("tanh: output 0 of the description is off by")


def test_a_wrong_bit_is_found(descriptions):
    """Of numbers that are exact or false, however small the difference is beside the largest of them."""
    wrong = tdl.elementwise("or_one_below_4", lambda x, y: np.where(x >= 4, x.astype(int) | 7, x.astype(int) | 1))
    falsify(descriptions, "or", lambda x, *, literals: lambda *i: wrong(x[i], 1))
    assert verify("bits of uint8", "or") == ["or: output 0 of the description is off by inf"]


def test_a_strategy_that_is_none_is_found(descriptions):
    """Of a sum that runs, whose numbers are not described: by its parts."""
    total = tdl.Opaque(name="total")
    falsify(descriptions, "cumsum", lambda x, *, axis: lambda *i: total(x[i])[()])
    assert any(text.startswith("cumsum: split i1: the parts are off by") for text in verify("running sum", "cumsum"))


def test_a_part_of_another_shape_is_found(descriptions):
    """Where an attribute of a copy has to follow its part, and does not."""
    falsify(descriptions, "broadcast_in_dim", DESCRIPTIONS["broadcast_in_dim"].function, concrete=True)
    problems = verify("mask", "broadcast_in_dim")
    assert "broadcast_in_dim: split i0: in 2 parts: a part of an output is (6, 6), and its region (3, 6)" in problems


def test_a_pair_of_strategies_that_is_none_is_found(descriptions):
    """Each of the two is one."""
    described = DESCRIPTIONS["broadcast_in_dim"]

    def find_shape(local):
        whole, own = local.attributes["shape"], local.outputs[0].shape
        return whole if sum(a != b for a, b in zip(whole, own, strict=True)) > 1 else own

    falsify(descriptions, "broadcast_in_dim", described.function, concrete=True, bound={"shape": find_shape})
    problems = verify("mask", "broadcast_in_dim")
    assert problems
    assert all(re.match(r"broadcast_in_dim: split i0 x i1: in \d x \d parts: ", text) for text in problems)
    assert any(" in 2 x 2 parts: " in text for text in problems)


def test_keys_that_draw_together_are_found_where_they_are_said_not_to(descriptions, monkeypatch):
    """Of 128 bits, of XLA's own generator."""
    monkeypatch.setattr(of_keys, "_draws_together", lambda count, types: False)
    bound = {"shape": of_keys._local_shape, "first": of_keys._local_first}

    def draw(
        keys, *, output_shapes, shape, bit_width, input_types, first=()
    ):  # its own: what was analysed is remembered
        return of_keys.random_bits.function(
            keys, output_shapes=output_shapes, shape=shape, bit_width=bit_width, input_types=input_types, first=first
        )

    falsify(descriptions, "random_bits", draw, concrete=True, starts=set(of_keys.AXES), bound=bound)
    problems = verify("draws of several keys of XLA's own generator", "random_bits")
    assert "random_bits: split i0: the parts are off by inf" in problems


def test_a_local_call_that_is_wrong_is_found(monkeypatch):
    """A worker that counts from zero whatever its part."""
    monkeypatch.delitem(local_calls.RULES, "iota")
    assert any(text.startswith("iota: split i0: the parts are off by") for text in verify("iota", "iota"))


def test_what_two_workers_count_is_found_at_sizes_that_divide(monkeypatch):
    """A strategy is carried out in parts that overlap, too, where 2 and 3 parts leave no rest; so is a pair of them."""
    case = Case("even sizes", lambda x, w: x @ w, (4, 6), (6, 2))
    wanted = list_wanted([case])[case.name]
    assert verify_case(case, wanted, search=False).problems == ()
    monkeypatch.setattr("tofu.jax.verify.parts.list_repeated", lambda *_: [])
    problems = verify_case(case, wanted, search=False).problems
    assert [text.partition(":")[2].partition(":")[0] for text in problems] == [
        " split k0",
        " split m0 x k0",
        " split n1 x k0",
    ]


def test_a_dimension_that_a_description_hides_is_found(descriptions):
    lines = tdl.Opaque(lambda line: line[::-1])
    falsify(descriptions, "rev", lambda x, *, dimensions: lambda i, j: lines(x[:, :])[i, j])
    assert verify("reverse", "rev") == []
    assert "rev: missing strategy inputs (dimension 1) -> CONCAT along 1" in verify("reverse", "rev", search=True)


def test_a_sum_that_a_description_hides_is_found(descriptions):
    product = tdl.Opaque(np.dot)
    falsify(descriptions, "dot_general", lambda x, w: lambda i, j: product(x[i, :], w[:, j])[()])
    problems = verify("dot", "dot_general", search=True)
    assert "dot_general: missing strategy inputs (dimension 1, dimension 0) -> REDUCE" in problems


def test_borders_that_a_description_hides_are_found(descriptions):
    """Windows that overlap, whose positions an opaque function hides."""

    def hide(operand, *, window_dimensions, window_strides, padding):
        whole = tdl.Opaque(name="pool")
        return lambda *i: whole(operand[(i[0], slice(None), slice(None), i[3])])[i[1], i[2]]

    falsify(descriptions, "reduce_window_max", hide)
    assert verify("overlapping pooling", "reduce_window_max") == []
    problems = verify("overlapping pooling", "reduce_window_max", search=True)
    assert any("missing strategy inputs (dimension 1) -> CONCAT along 1" in text for text in problems)


def test_what_is_compared_with_nothing_is_told(descriptions):
    """Whose numbers are not described, and which has no strategies."""
    hidden = tdl.Opaque(name="hidden")
    falsify(descriptions, "rev", lambda x, *, dimensions: lambda i, j: hidden(x[:, :])[i, j])
    case = load_cases()["reverse"]
    found = [verify_case(case, list_wanted([case], ["rev"])["reverse"], search=False)]
    assert (found[0].problems, summarize(found, ["rev"]).uncompared) == ((), ("rev",))


def test_what_is_computed_whole_has_nothing_to_be_compared_with():
    found = CliRunner().invoke(main, ["verify", "--jax", "cond", "while", "--jobs", "1", "--no-missing"])
    assert found.exit_code == 0, found.output
    assert "2 replicated, 0 not at all" in found.output


def test_the_command_counts_what_it_compared():
    names = ["clamp", "nextafter"]  # which are in few cases, and short ones
    found = CliRunner().invoke(main, ["verify", "--jax", *names, "--jobs", "1", "--json"])
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert (told["described"], told["by_numbers"], told["by_parts"], told["uncompared"]) == (
        2,
        names,
        [],
        [],
    )
    assert (told["missing"], told["refused"], told["problems"]) == (0, 0, {})
    assert told["strategies"] > told["signatures"] > 2
    assert told["pairs"] > 2
    assert 0 < told["overlapping"] <= told["pairs"] + told["strategies"]


def test_the_command_fails_where_a_description_is_false(descriptions):
    falsify(descriptions, "reduce_precision", lambda x, *, exponent_bits, mantissa_bits: lambda *i: -x[i])
    found = CliRunner().invoke(main, ["verify", "reduce_precision", "--jax", "--jobs", "1", "--no-missing"])
    assert found.exit_code == 1
    assert "precision: reduce_precision: output 0 of the description is off by" in found.output
    assert "see below" in found.output


def test_the_command_says_what_is_near_a_name():
    found = CliRunner().invoke(main, ["verify", "--jax", "dot_genera"])
    assert found.exit_code == 1
    assert "No primitive that is described is called dot_genera; did you mean dot_general" in found.output
