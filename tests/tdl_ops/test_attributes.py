"""Attributes as MXNet writes them."""

from __future__ import annotations

import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tdl_ops.mxnet.attributes import format_attribute, parse_attribute
from tofu.errors import DescriptionError


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        ("8", 0, 8),
        ("8L", 0, 8),
        ("0.5", 1.0, 0.5),
        ("1e-3", 1.0, 1e-3),
        ("1", 1.0, 1.0),
        ("True", False, True),
        ("true", False, True),
        ("1", False, True),
        ("0", True, False),
        ("False", True, False),
        ("(3, 3)", (), (3, 3)),
        ("[3,3]", (), (3, 3)),
        ("(3,)", (), (3,)),
        ("3", (), (3,)),
        ("()", (1,), ()),
        ("(3L, 3L)", (), (3, 3)),
        ("(None, 2)", (), (None, 2)),
        ("None", (), None),
        ("None", 0, None),
        ("relu", "tanh", "relu"),
        ("1", "", "1"),
        ("8", None, 8),
        ("[0, 1]", None, (0, 1)),
        ("true", None, True),
        ("relu", None, "relu"),
        ("-1", None, -1),
        (" (1, 2) ", None, (1, 2)),
        ([1, 2], None, (1, 2)),
        (5, None, 5),
    ],
)
def test_reading(text, default, value):
    parsed = parse_attribute(text, default)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("value", "text"), [((3, 3), "(3, 3)"), ([3], "(3,)"), (True, "True"), (8, "8"), (0.5, "0.5"), (None, "None")]
)
def test_writing(value, text):
    assert format_attribute(value) == text
    assert parse_attribute(text) == (tuple(value) if isinstance(value, list) else value)


def convolution(data, *, kernel, no_bias=False):
    return lambda i: data[i]


def test_a_missing_attribute_is_an_error():
    with pytest.raises(
        DescriptionError, match="convolution needs the attribute `kernel`, which the node does not have"
    ):
        DESCRIPTIONS.describe(convolution).parse_attributes({})


def test_an_attribute_of_the_wrong_kind_is_an_error():
    with pytest.raises(DescriptionError) as caught:
        DESCRIPTIONS.describe(convolution).parse_attributes({"kernel": "(3, 3)", "no_bias": "maybe"})
    assert str(caught.value).endswith(
        "attribute `no_bias` of convolution: 'maybe' is no boolean; it is True, False, 1 or 0; its default is False"
    )


def test_attributes_that_are_not_listed_are_ignored():
    parsed = DESCRIPTIONS.describe(convolution).parse_attributes(
        {"kernel": "(3, 3)", "workspace": "1024", "__ctx_group__": "a"}
    )
    assert parsed == {"kernel": (3, 3), "no_bias": False}
