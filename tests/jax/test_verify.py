from collections import defaultdict
from functools import cache

import numpy as np
import pytest
from click.testing import CliRunner

from tdl_ops.jax import DESCRIPTIONS
from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.lacking import list_lacking
from tofu import tdl
from tofu.command_line.main import main
from tofu.jax.backend import local_calls
from tofu.jax.frontend.versions import in_double_precision
from tofu.jax.verify import primitives
from tofu.jax.verify.campaign import list_distinct, load_cases, verify_case
from tofu.jax.verify.nodes import trace_case


@pytest.fixture
def descriptions(monkeypatch):
    monkeypatch.setattr(DESCRIPTIONS, "_described", DESCRIPTIONS.copy())
    return DESCRIPTIONS._described


def replace_description(descriptions, name, function, **options):
    descriptions[name] = DESCRIPTIONS.describe(function, (name,), **options)


def find_problems(name, primitive, search=False):
    case = load_cases()[name]
    result = verify_case(case, list_distinct([case], [primitive])[name], search=search)
    assert result.verified
    return list(result.problems)


@cache
def trace_cases():
    with in_double_precision():
        return {case.name: trace_case(case)[0] for case in load_cases().values()}


def list_signatures():
    """Return (length of the case, case, number of the equation) of all equations, by primitive."""
    found = defaultdict(list)
    for name, step in trace_cases().items():
        equations = list(step.walk())
        for number, equation in enumerate(equations):
            found[equation.primitive.name].append((len(equations), name, number))
    return found


@pytest.mark.slow
def test_every_description_holds_in_its_shortest_case(monkeypatch):
    """Two tests share the cases. `python -m tofu verify --jax` checks all, and searches for missing strategies."""
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
    assert {verified.report.op for result in results for verified in result.verified} >= there


def test_a_wrong_formula_is_found(descriptions):
    replace_description(descriptions, "tanh", lambda x: lambda *i: tdl.sinh(x[i]))
    (problem,) = find_problems("single precision", "tanh")
    assert problem.startswith("tanh: output 0 of the description is off by")


def test_a_wrong_strategy_is_found(descriptions):
    total = tdl.Opaque(name="total")
    replace_description(descriptions, "cumsum", lambda x, *, axis: lambda *i: total(x[i])[()])
    assert any(
        text.startswith("cumsum: split i1: the parts are off by") for text in find_problems("running sum", "cumsum")
    )


def test_a_part_of_wrong_shape_is_found(descriptions):
    replace_description(descriptions, "broadcast_in_dim", DESCRIPTIONS["broadcast_in_dim"].function, concrete=True)
    problems = find_problems("mask", "broadcast_in_dim")
    assert "broadcast_in_dim: split i0: in 2 parts: a part of an output is (6, 6), and its region (3, 6)" in problems


def test_a_wrong_local_call_is_found(monkeypatch):
    monkeypatch.delitem(local_calls.RULES, "iota")
    assert any(text.startswith("iota: split i0: the parts are off by") for text in find_problems("iota", "iota"))


def test_double_counting_of_overlapping_parts_is_found(monkeypatch):
    case = PrimitiveCase("even sizes", lambda x, w: x @ w, (4, 6), (6, 2))
    wanted = list_distinct([case])[case.name]
    assert verify_case(case, wanted, search=False).problems == ()
    monkeypatch.setattr("tofu.jax.verify.parts.find_repeated_elements", lambda *_: [])
    problems = verify_case(case, wanted, search=False).problems
    assert [text.split(":")[1] for text in problems] == [" split k0", " split m0 x k0", " split n1 x k0"]


def test_a_missing_strategy_is_found(descriptions):
    product = tdl.Opaque(np.dot)
    replace_description(descriptions, "dot_general", lambda x, w: lambda i, j: product(x[i, :], w[:, j])[()])
    problems = find_problems("dot", "dot_general", search=True)
    assert "dot_general: missing strategy inputs (dimension 1, dimension 0) -> reduced" in problems


@pytest.mark.slow
def test_the_command_fails_on_a_wrong_description(descriptions):
    replace_description(descriptions, "reduce_precision", lambda x, *, exponent_bits, mantissa_bits: lambda *i: -x[i])
    found = CliRunner().invoke(main, ["verify", "reduce_precision", "--jax", "--jobs", "1", "--no-missing"])
    assert found.exit_code == 1
    assert "precision: reduce_precision: output 0 of the description is off by" in found.output
    assert "see below" in found.output
    unknown = CliRunner().invoke(main, ["verify", "--jax", "dot_genera"])
    assert "No primitive that is described is called dot_genera; did you mean dot_general" in unknown.output
