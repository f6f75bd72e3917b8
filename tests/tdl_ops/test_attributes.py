import pytest

from tdl_ops.mxnet import DESCRIPTIONS
from tdl_ops.mxnet.attributes import format_attribute, parse_attribute
from tofu.errors import DescriptionError


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        ("8", 0, 8),
        ("1e-3", 1.0, 1e-3),
        ("true", False, True),
        ("0", True, False),
        ("[3,3]", (), (3, 3)),
        ("()", (1,), ()),
        ("(3L, 3L)", (), (3, 3)),
        ("(None, 2)", (), (None, 2)),
        ("None", (), None),
        ("relu", "tanh", "relu"),
        ("1", "", "1"),
        ("[0, 1]", None, (0, 1)),
        ("relu", None, "relu"),
        ("-1", None, -1),
        ("-inf", None, float("-inf")),
        (" (1, 2) ", None, (1, 2)),
        ([1, 2], None, (1, 2)),
        (5, None, 5),
    ],
)
def test_attributes_are_parsed(text, default, value):
    parsed = parse_attribute(text, default)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("value", "text"), [((3, 3), "(3, 3)"), ([3], "(3,)"), (True, "True"), (8, "8"), (0.5, "0.5"), (None, "None")]
)
def test_attributes_are_formatted(value, text):
    assert format_attribute(value) == text
    assert parse_attribute(text) == (tuple(value) if isinstance(value, list) else value)


def convolution(data, *, kernel, no_bias=False):
    return lambda i: data[i]


def test_missing_and_wrong_attributes_are_refused():
    with pytest.raises(DescriptionError, match="convolution needs the attribute `kernel`, which the node does not"):
        DESCRIPTIONS.describe(convolution).parse_attributes({})
    with pytest.raises(DescriptionError, match="attribute `no_bias` of convolution: 'maybe' is no boolean; it is True"):
        DESCRIPTIONS.describe(convolution).parse_attributes({"kernel": "(3, 3)", "no_bias": "maybe"})


def test_unlisted_attributes_are_ignored():
    parsed = DESCRIPTIONS.describe(convolution).parse_attributes(
        {"kernel": "(3, 3)", "workspace": "1024", "__ctx_group__": "a"}
    )
    assert parsed == {"kernel": (3, 3), "no_bias": False}
