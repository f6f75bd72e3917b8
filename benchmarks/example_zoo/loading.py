"""The definitions of a script, without what it does: MXNet's examples download data and train as they are imported."""

from __future__ import annotations

import ast
import site
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import mxnet as mx

CONSTANT = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.BinOp, ast.operator, ast.expr_context)
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def load_definitions(path: Path) -> SimpleNamespace:
    """Functions and classes of a file, its constants, and the symbols that it makes at its top level.

    Its neighbours can be imported. What cannot be (a package that draws pictures, say) is left out, and so is what else it does.
    """
    site.addsitedir(str(path.parent))
    site.addsitedir(str(path.parent.parent))
    names = {"__name__": path.stem, "__file__": str(path), "mx": mx}
    for statement in list_definitions(ast.parse(path.read_text())):
        with suppress(Exception):  # a name that one of the others would have made
            exec(compile(ast.Module([statement], []), str(path), "exec"), names)
    return SimpleNamespace(**names)


def list_definitions(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements that define something and do nothing else; of imports, one statement for each name."""
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            yield from (ast.copy_location(ast.Import([alias]), statement) for alias in statement.names)
        elif isinstance(statement, DEFINITIONS) or (isinstance(statement, ast.Assign) and _is_value(statement.value)):
            yield statement


def _is_value(value: ast.expr) -> bool:
    """Whether an expression is a constant, a kind of tuple, or a call of mx.sym."""
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).startswith(("mx.sym.", "mx.symbol.", "namedtuple"))
    return all(isinstance(node, CONSTANT) for node in ast.walk(value))
