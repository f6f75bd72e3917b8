from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

CONSTANT = (
    ast.Constant,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.BinOp,
    ast.UnaryOp,
    ast.operator,
    ast.unaryop,
    ast.expr_context,
)
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def execute_definitions(text: str, path: Path, names: dict[str, Any], makers: tuple[str, ...]) -> None:
    """Execute the definitions of a text, and add them to `names`. Definitions that need a skipped name are left out."""
    for statement in _list_definitions(ast.parse(text), makers):
        with suppress(Exception):
            exec(compile(ast.Module([statement], []), str(path), "exec"), names)


def _list_definitions(tree: ast.Module, makers: tuple[str, ...] = ()) -> Iterator[ast.stmt]:
    """Yield the statements that only define something. Assignments count if the value is a constant, or a call of a
    function named like one of `makers`."""
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            yield from (ast.copy_location(ast.Import([alias]), statement) for alias in statement.names)
        elif isinstance(statement, DEFINITIONS) or (
            isinstance(statement, ast.Assign) and _is_value(statement.value, makers)
        ):
            yield statement


def _is_value(value: ast.expr, makers: tuple[str, ...]) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).startswith(makers)
    return all(isinstance(node, CONSTANT) for node in ast.walk(value))
