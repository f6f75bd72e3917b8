import importlib.util
import re
from importlib import import_module
from pathlib import Path

import pytest

import tofu
from tofu.command_line.main import FILES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site():
    spec = importlib.util.spec_from_file_location("site_of_documents", ROOT / "docs/site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_navigation_lists_the_documents(site):
    named = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    documents = {str(path.relative_to(ROOT)) for path in site.list_documents()}
    assert set(named) <= documents | {*site.REFERENCE, site.COMMANDS}
    assert {name for name in documents if re.fullmatch(r"docs/[^/]+\.md", name)} <= set(named)
    assert {*site.REFERENCE, site.COMMANDS} <= set(named)


def test_the_reference_lists_every_public_name(site):
    shown = [path for module in ("tofu", "tofu.gluon", "tofu.mod") for path in site.list_public(module)]
    for path in shown:
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name), path
    assert {path.rpartition(".")[2] for path in shown} == {
        *set(tofu.__all__) - {"gluon", "mod"},
        *tofu.gluon.__all__,
        *tofu.mod.__all__,
    }


def test_the_reference_has_every_command(site):
    page = site.write_commands()
    assert [name for name in FILES if f"\n## {name}\n" not in page] == []
    assert "--memory-limit SIZE" in page
