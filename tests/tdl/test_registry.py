"""Descriptions get in by `op`, once under each name."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import pytest

from tofu.analysis import analyse
from tofu.errors import DescriptionError
from tofu.tdl import Registry, describe


def test_a_description_has_its_functions_name_or_the_given_ones():
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


def test_registering_twice_names_both_places():
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
    assert registry["Same"] is first
    replaced = registry.op("Same", override=True)(second)
    assert registry["Same"] is replaced


def test_a_failed_registration_registers_nothing():
    registry = Registry()
    registry.op("Same")(lambda x: lambda i: x[i])
    with pytest.raises(DescriptionError):
        registry.op("New", "Same")(lambda x: lambda i: x[i])
    assert "New" not in registry


def test_registries_know_nothing_of_each_other():
    one, other = Registry(), Registry()
    doubled = one.op("Same")(lambda x: lambda i: 2 * x[i])
    halved = other.op("Same")(lambda x: lambda i: x[i] / 2)
    assert (one["Same"], other["Same"]) == (doubled, halved)


def test_attributes_are_read_and_written_as_the_framework_has_them():
    function = lambda x, *, size=0: lambda i: x[i]  # noqa: E731
    text = Registry(parse=lambda text, default: type(default)(text), format=lambda value: f"<{value}>")
    options = {"bound": {"size": "i"}}
    of_text = analyse(text.op("f", **options)(function), {"size": "8"}, [(8,)], [(8,)])
    of_values = analyse(Registry().op("f", **options)(function), {"size": 8}, [(8,)], [(8,)])
    assert of_text.attributes == of_values.attributes == {"size": 8}
    assert of_text.worker_attributes({"i": (0, 4)}, [(4,)], [(4,)]) == {"size": "<4>"}
    assert of_values.worker_attributes({"i": (0, 4)}, [(4,)], [(4,)]) == {"size": 4}


def test_a_value_and_its_text_are_different_attributes():
    """As far as an analysis is remembered."""
    description = describe(lambda x, *, axis: lambda i, j: x[i, j] if axis == 1 else x[j, i])
    given = [(4, 4)], [(4, 4)]
    first, second = (analyse(description, {"axis": axis}, *given) for axis in (1, "1"))
    assert first.inputs != second.inputs


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two files of descriptions, the first of which needs one of the second."""
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


def test_a_package_registers_its_descriptions_when_one_is_looked_up(package):
    assert "described_here.basic" not in sys.modules
    assert package["Alias"].function is package["Basic"].function
    assert list(package) == ["Basic", "Alias"]


def test_one_file_of_a_package_registers_its_own_alone(package):
    import_module("described_here.basic")
    assert "described_here.alias" not in sys.modules
    assert len(package) == 2


def test_descriptions_of_users_come_after_those_of_the_package(package):
    own = lambda x: lambda i: 2 * x[i]  # noqa: E731
    with pytest.raises(DescriptionError, match=r"Basic is already described at \S*basic\.py:3"):
        package.op("Basic")(own)
    replaced = package.op("Basic", override=True)(own)
    assert package["Basic"] is replaced
    assert package["Alias"] is not replaced


def test_a_package_that_cannot_be_imported_says_so_each_time(package, tmp_path):
    (tmp_path / "described_here" / "wrong.py").write_text("raise ValueError('wrong')\n")
    for _ in range(2):
        with pytest.raises(ValueError, match="wrong"):
            len(package)


def test_threads_wait_until_a_package_has_registered_all(package, tmp_path):
    slow = "import time\n\ntime.sleep(0.2)\n"
    path = tmp_path / "described_here" / "basic.py"
    path.write_text(slow + path.read_text())
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: len(package), range(2))) == [2, 2]


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
