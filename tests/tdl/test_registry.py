"""Descriptions get in by `op`, once under each name."""

from __future__ import annotations

import re

import pytest

from tofu.errors import DescriptionError
from tofu.tdl import describe, lookup, op, registered
from tofu.tdl import registry as registry_module


@pytest.fixture(autouse=True)
def _an_empty_registry(monkeypatch):
    monkeypatch.setattr(registry_module, "_REGISTERED", {})


def test_a_description_has_its_functions_name_or_the_given_ones():
    @op
    def twice(x):
        return lambda i: 2 * x[i]

    @op("First", "Second")
    def other(x):
        return lambda i: x[i]

    assert lookup("twice") is twice
    assert lookup("First") is lookup("Second") is other
    assert lookup("other") is None
    assert list(registered()) == ["twice", "First", "Second"]
    assert repr(twice).startswith("twice(x) at ")


def test_registering_twice_names_both_places():
    @op("Same")
    def first(x):
        return lambda i: x[i]

    def second(x):
        return lambda i: -x[i]

    with pytest.raises(DescriptionError) as caught:
        op("Same")(second)
    assert re.fullmatch(
        r"\S*test_registry\.py:\d+: Same is described already at \S*test_registry\.py:\d+; "
        r"op\(\.\.\., override=True\) replaces it",
        str(caught.value),
    )
    assert lookup("Same") is first
    replaced = op("Same", override=True)(second)
    assert lookup("Same") is replaced


def test_a_failed_registration_registers_nothing():
    op("Same")(lambda x: lambda i: x[i])
    with pytest.raises(DescriptionError):
        op("New", "Same")(lambda x: lambda i: x[i])
    assert lookup("New") is None


def test_the_signature_is_checked():
    with pytest.raises(DescriptionError, match="positional parameters are tensors"):
        describe(lambda x, axis=1: lambda i: x[i])
    with pytest.raises(DescriptionError, match="attributes are listed one by one"):
        describe(lambda x, **attributes: lambda i: x[i])
    with pytest.raises(DescriptionError, match="`num_hidden` is bound but is no attribute of the description"):
        describe(lambda x: lambda i: x[i], bound={"num_hidden": "i"})


def test_a_variable_number_of_inputs():
    description = describe(lambda x, *more, axis=0: lambda i: x[i])
    assert description.name_inputs(3) == ("x", "more0", "more1")
