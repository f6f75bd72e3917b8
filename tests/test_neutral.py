"""Framework-neutral code: its imports, however they are spelled, and the words of its code."""

import ast
import re
from pathlib import Path

import grimp
import networkx
import pytest
import tomli

from tdl_ops.mxnet import DESCRIPTIONS

ROOT = Path(__file__).parents[1]
TOFU = ROOT / "tofu"
KNOW_FRAMEWORKS = {
    *("__init__", "__main__", "command_line", "engines", "gluon", "imports", "jax", "mod", "mxnet", "partition")
}
MODULES = {path.stem for path in TOFU.glob("*.py")} | {path.parent.name for path in TOFU.glob("*/__init__.py")}
NEUTRAL = MODULES - KNOW_FRAMEWORKS
FRAMEWORKS = {"mxnet", "jax", "torch", "tdl_ops"}
OPERATORS = {name for name in DESCRIPTIONS if re.match("[_A-Z]", name)}  # other names are also words of the language
WORDS = re.compile("mxnet|nnvm|onednn|gluon", re.IGNORECASE)


def neutral_files():
    files = (path for name in NEUTRAL for path in (TOFU / name).rglob("*.py"))
    return sorted([*files, *(TOFU / f"{name}.py" for name in NEUTRAL if (TOFU / f"{name}.py").exists())])


def list_imports(tree):
    """Yield the dotted names that are imported, by statements or by their names as text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = f"{'.' * node.level}{node.module or ''}"
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            yield from (argument.value for argument in node.args if isinstance(argument, ast.Constant))


def find_imports(text):
    for name in list_imports(ast.parse(text)):
        first, _, rest = name.partition(".")
        if first in FRAMEWORKS or not first or (first == "tofu" and rest.split(".")[0] not in NEUTRAL | {"_core"}):
            yield name


def find_words(text):
    """Yield the names and texts of the code, without docstrings and comments, that belong to a framework."""
    tree = ast.parse(text)
    bodies = (node.body for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)))
    docstrings = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings and node.value in OPERATORS:
            yield node.value
        for word in (getattr(node, field, None) for field in ("id", "attr", "name", "arg", "value")):
            if isinstance(word, str) and id(node) not in docstrings and WORDS.search(word):
                yield word


@pytest.mark.parametrize("path", neutral_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_neutral_files_know_no_framework(path):
    assert list(find_imports(path.read_text())) == []
    assert list(find_words(path.read_text())) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from tofu import _mxnet", ["tofu._mxnet"]),
        ("import tofu", ["tofu"]),
        ("from tofu.mxnet.engine import MXNET", ["tofu.mxnet.engine.MXNET"]),
        ("def f():\n    import mxnet as mx", ["mxnet"]),
        ("import importlib\nimportlib.import_module('tofu.mod')", ["tofu.mod"]),
        ("from ..mxnet import engine", ["..mxnet.engine"]),
        ("from tofu import _core\nfrom tofu.graph import Graph\nimport numpy", []),
    ],
)
def test_planted_imports_are_found(text, found):
    assert list(find_imports(text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SUMS = ('add', '_grad_add')", ["_grad_add"]),
        ("if op == 'RNN':\n    pass", ["RNN"]),
        ("def read_mxnet():\n    'As MXNet has it.'", ["read_mxnet"]),
        ("raise ValueError(f'MXNet has no {name}')", ["MXNet has no "]),
        ("'Of MXNet.'\nclass A:\n    'As MXNet.'\n\n\nadd = 'tanh'  # as in MXNet", []),
    ],
)
def test_planted_words_are_found(text, found):
    assert list(find_words(text)) == found


def test_the_linter_looks_at_the_same_packages():
    contracts = tomli.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (listed,) = (c["source_modules"] for c in contracts if "tdl_ops" in c.get("forbidden_modules", ()))
    assert set(listed) == {f"tofu.{name}" for name in NEUTRAL}


def test_no_modules_import_each_other_in_a_circle():
    imports = grimp.build_graph("tofu", "tdl_ops", exclude_type_checking_imports=True)
    circles = networkx.DiGraph(
        (module, imported)
        for module in imports.modules
        for imported in imports.find_modules_directly_imported_by(module)
    )
    circles.remove_nodes_from([name for name in ("tofu", "tdl_ops") if name in circles])
    assert [sorted(found) for found in networkx.strongly_connected_components(circles) if len(found) > 1] == []
