import re
import sys
from importlib import import_module

import pytest

from tofu.analysis import analyse
from tofu.errors import DescriptionError
from tofu.tdl import Registry, describe


def test_descriptions_are_named_after_the_function_or_the_arguments():
    registry = Registry()

    @registry.op
    def twice(x):
        return lambda i: 2 * x[i]

    @registry.op("First", "Second")
    def other(x):
        return lambda i: x[i]

    assert registry["twice"] is twice
    assert registry["First"] is registry["Second"] is other
    assert registry.get("other") is None
    assert list(registry) == ["twice", "First", "Second"]
    assert repr(twice).startswith("twice(x) at ")


def test_a_second_registration_names_both_places():
    registry = Registry()

    @registry.op("Same")
    def first(x):
        return lambda i: x[i]

    def second(x):
        return lambda i: -x[i]

    with pytest.raises(DescriptionError) as caught:
        registry.op("Same")(second)
    assert re.fullmatch(
        r"\S*test_registry\.py:\d+: Same is already described at \S*test_registry\.py:\d+; "
        r"op\(\.\.\., override=True\) replaces it",
        str(caught.value),
    )
    with pytest.raises(DescriptionError):
        registry.op("New", "Same")(second)
    assert "New" not in registry
    assert registry["Same"] is first
    replaced = registry.op("Same", override=True)(second)
    assert registry["Same"] is replaced


def test_attributes_are_parsed_and_formatted_by_the_registry():
    function = lambda x, *, size=0: lambda i: x[i]  # noqa: E731
    text = Registry(parse=lambda text, default: type(default)(text), format=lambda value: f"<{value}>")
    options = {"bound": {"size": "i"}}
    of_text = analyse(text.op("f", **options)(function), {"size": "8"}, [(8,)], [(8,)])
    of_values = analyse(Registry().op("f", **options)(function), {"size": 8}, [(8,)], [(8,)])
    assert of_text.attributes == of_values.attributes == {"size": 8}
    assert of_text.worker_attributes({"i": (0, 4)}, [(4,)], [(4,)]) == {"size": "<4>"}
    assert of_values.worker_attributes({"i": (0, 4)}, [(4,)], [(4,)]) == {"size": 4}


def test_a_value_and_its_text_are_analysed_separately():
    description = describe(lambda x, *, axis: lambda i, j: x[i, j] if axis == 1 else x[j, i])
    given = [(4, 4)], [(4, 4)]
    first, second = (analyse(description, {"axis": axis}, *given) for axis in (1, "1"))
    assert first.inputs != second.inputs


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Make a package with two files of descriptions. The first imports the second."""
    folder = tmp_path / "described_here"
    folder.mkdir()
    (folder / "__init__.py").write_text("from tofu.tdl import Registry\n\nREGISTRY = Registry(__name__)\n")
    (folder / "alias.py").write_text(
        "import described_here.basic\n"
        "from described_here import REGISTRY\n\n"
        "REGISTRY.op('Alias')(REGISTRY['Basic'].function)\n"
    )
    (folder / "basic.py").write_text(
        "from described_here import REGISTRY\n\nREGISTRY.op('Basic')(lambda x: lambda i: x[i])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("described_here").REGISTRY
    for name in [name for name in sys.modules if name.startswith("described_here")]:
        del sys.modules[name]


def test_a_package_registers_its_descriptions_at_the_first_lookup(package):
    assert "described_here.basic" not in sys.modules
    assert package["Alias"].function is package["Basic"].function
    assert list(package) == ["Basic", "Alias"]


def test_user_descriptions_replace_those_of_the_package(package):
    own = lambda x: lambda i: 2 * x[i]  # noqa: E731
    with pytest.raises(DescriptionError, match=r"Basic is already described at \S*basic\.py:3"):
        package.op("Basic")(own)
    replaced = package.op("Basic", override=True)(own)
    assert package["Basic"] is replaced
    assert package["Alias"] is not replaced


def test_signatures_are_checked():
    with pytest.raises(DescriptionError, match="positional parameters are tensors"):
        describe(lambda x, axis=1: lambda i: x[i])
    with pytest.raises(DescriptionError, match="attributes are listed one by one"):
        describe(lambda x, **attributes: lambda i: x[i])
    with pytest.raises(DescriptionError, match="`num_hidden` is bound but is no attribute of the description"):
        describe(lambda x: lambda i: x[i], bound={"num_hidden": "i"})
