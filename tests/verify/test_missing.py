"""Strategies that a description hides from the analysis."""

import numpy as np

from tofu.tdl import Opaque, describe, registry
from tofu.verify import Case, find_missing

ADDITION = Case("elemwise_add", {}, [(5, 7), (5, 7)], wrt=())
PRODUCT = Case("dot", {}, [(3, 5), (5, 7)], wrt=())


def hide(monkeypatch, name, function):
    monkeypatch.setitem(registry._REGISTERED, name, describe(function, (name,)))


def find_cuts(case):
    return [repr(missing.cut) for missing in find_missing(case)]


def test_nothing_is_missing_of_what_is_described():
    assert find_cuts(ADDITION) == []
    assert find_cuts(PRODUCT) == []


def test_a_dimension_that_a_description_hides_is_found(monkeypatch):
    add = Opaque(lambda lhs, rhs: lhs + rhs)
    hide(monkeypatch, "elemwise_add", lambda lhs, rhs: lambda i, j: add(lhs[i, :], rhs[i, :])[j])
    assert find_cuts(ADDITION) == ["inputs (dimension 1, dimension 1) -> CONCAT along 1"]


def test_a_sum_that_a_description_hides_is_found(monkeypatch):
    product = Opaque(np.dot)
    hide(monkeypatch, "dot", lambda lhs, rhs: lambda i, j: product(lhs[i, :], rhs[:, j])[()])
    assert find_cuts(PRODUCT) == ["inputs (dimension 1, dimension 0) -> REDUCE"]


def test_attributes_shrink_with_the_parts(monkeypatch):
    repeat = Opaque(np.broadcast_to)
    hide(monkeypatch, "broadcast_to", lambda data, *, shape: lambda i, j: repeat(data[:, :])[i, j])
    case = Case("broadcast_to", {"shape": (5, 7)}, [(5, 1)], wrt=())
    assert find_cuts(case) == ["inputs (dimension 0) -> CONCAT along 0", "inputs (whole) -> CONCAT along 1"]


def test_a_gradient_is_cut_as_its_operator(monkeypatch):
    hidden = Opaque()
    hide(monkeypatch, "_backward_tanh", lambda d_out, out: lambda i, j: hidden(d_out[:, :], out[:, :])[i, j])
    missing = find_missing(Case("tanh", {}, [(5, 7)]))
    assert {(one.op, one.cut.inputs) for one in missing} == {("_backward_tanh", (0, 0)), ("_backward_tanh", (1, 1))}
