"""Record of the verification of every operator, written by `python -m tofu verify --record`.

An entry only counts as long as the sources of the description and kernel are unchanged.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from functools import cache
from hashlib import sha256
from pathlib import Path

from tdl_ops.mxnet import DESCRIPTIONS
from tofu.analysis import Combine
from tofu.errors import InternalError
from tofu.host.writing import write_atomically
from tofu.mxnet.verify.campaign import CaseResult
from tofu.verification.comparison import Compared
from tofu.verification.report import NodeReport

RECORD = Path(__file__).parent / "record.json"
SOURCES = Path(__file__).parents[3] / "csrc"
_PACKAGE = "tdl_ops"
_OWN = "_tofu_"
_INCLUDED = re.compile(r'^#include "(.+)"\n', re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_GUARD = re.compile(r"^#(?:ifndef|define|endif  //) TOFU_\w+_H_\n", re.MULTILINE)
NEVER_GIVEN = {"_backward_Embedding": 0, "_backward_softmax_cross_entropy": 1}
"""Operator -> output that MXNet refuses to compute: a gradient of labels, which is described as unwritten."""


@dataclass(frozen=True)
class RecordEntry:
    """Record of one operator.

    Attributes
    ----------
    digest
        Digest of the description's sources.
    kernels
        Digest of the C++ sources of Tofu's own kernels; empty for MXNet's kernels.
    axes
        Axes along which the operator was run in parts, at any signature (its attributes, shapes and types).
    reduced
        The axes whose split leaves partial results of an output.
    is_elementwise
        True if the operator is element-wise at every signature.
    is_opaque
        True if the operator is opaque, which means that its description has no formula, at any signature.
    compared
        The weakest way in which an output was compared at a signature, in the words of `Compared`.
    cells
        Number of elements compared in each way, in the built-in cases.
    missed
        Outputs, except scratch, of which no element was compared anywhere.
    reason
        Why the description's numbers were not compared, or empty if they were.
    signatures
        Number of verified signatures.
    """

    digest: str
    kernels: str
    axes: tuple[str, ...]
    reduced: tuple[str, ...]
    is_elementwise: bool
    is_opaque: bool
    compared: str
    cells: Mapping[str, int]
    missed: tuple[int, ...]
    reason: str
    signatures: int

    @property
    def is_verified(self) -> bool:
        """True if every output was compared."""
        return self.compared != str(Compared.NOTHING) and not self.missed


def read_record(path: Path = RECORD) -> dict[str, RecordEntry]:
    """Return operator -> entry, for the valid entries. An installed package has no record, and so no entries."""
    if not path.exists():
        return {}
    entries = {name: _read_entry(fields) for name, fields in json.loads(path.read_text()).items()}
    return {name: entry for name, entry in entries.items() if entry is not None and _is_current(name, entry)}


def write_record(entries: Mapping[str, RecordEntry], path: Path = RECORD) -> None:
    """Write one line for each operator, sorted by name, so that diffs are readable."""
    lines = (f" {json.dumps(name)}: {json.dumps(asdict(entry))}" for name, entry in sorted(entries.items()))
    write_atomically(path, "{\n" + ",\n".join(lines) + "\n}\n")


def make_entries(results: Iterable[CaseResult]) -> dict[str, RecordEntry]:
    """Return the entries of all operators in `results` that have no problem anywhere."""
    nodes: dict[str, list[tuple[NodeReport, int]]] = defaultdict(list)
    broken: set[str] = set()
    for result in results:
        broken |= result.broken_operators
        for node in result.report.nodes:
            nodes[node.op].append((node, 1 + result.trials.verified))
    return {name: _make_entry(name, reports) for name, reports in nodes.items() if name not in broken}


def _make_entry(op: str, reports: Sequence[tuple[NodeReport, int]]) -> RecordEntry:
    nodes = [node for node, _ in reports]
    combine = [(s.axis, s.combine) for node in nodes for s in node.strategies if s.cells]
    cells = Counter[Compared]()
    for comparison in (comparison for node in nodes for comparison in node.compared):
        cells[comparison.kind] += comparison.cells
    asked = {n for node in nodes for n in node.outputs} - {NEVER_GIVEN.get(op)}
    found = {n for node in nodes for n in node.compared_outputs}
    kinds = [node.kind for node in nodes if node.kind is not Compared.NOTHING]
    return RecordEntry(
        digest=digest_of(op),
        kernels=digest_of_kernels(op),
        axes=tuple(dict.fromkeys(axis for axis, _ in combine)),
        reduced=tuple(dict.fromkeys(axis for axis, together in combine if Combine.REDUCE.word in together)),
        is_elementwise=all(node.is_elementwise for node in nodes),
        is_opaque=any(node.is_opaque for node in nodes),
        compared=str(_find_weakest(kinds)),
        cells={str(kind): cells[kind] for kind in sorted(cells) if cells[kind]},
        missed=tuple(sorted(asked - found)),
        reason=next((node.checked for node in nodes if node.checked), ""),
        signatures=sum(count for _, count in reports),
    )


def _find_weakest(kinds: Sequence[Compared]) -> Compared:
    """Return the weakest kind of comparison. UNWRITTEN only counts if there is no other kind."""
    written = [kind for kind in kinds if kind is not Compared.UNWRITTEN]
    return max(written or kinds, default=Compared.NOTHING)


def _read_entry(fields: Mapping[str, object]) -> RecordEntry | None:
    if fields.keys() != {field.name for field in dataclass_fields(RecordEntry)}:
        return None
    return RecordEntry(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})  # type: ignore[arg-type]


def _is_current(op: str, entry: RecordEntry) -> bool:
    kernels = digest_of_kernels(op)
    return entry.digest == digest_of(op) and kernels in ("", entry.kernels)


def digest_of(op: str) -> str:
    """Return the digest of all code that the description of `op` uses, or an empty text without a description.

    Comments, docstrings and paths are left out, so the digest stays the same if other operators are added or if a
    function moves.
    """
    description = DESCRIPTIONS.get(op)
    return "" if description is None else _digest_description(Path(description.place.file), description.place.line)


def digest_of_kernels(op: str, sources: Path = SOURCES) -> str:
    """Return the digest of the C++ file that names one of Tofu's own operators, and of its includes.

    The digest is empty for an operator of MXNet, and if there are no sources.
    """
    folder = sources / "nnvm"
    if not op.startswith(_OWN) or not folder.is_dir():
        return ""
    found = [path for path in folder.rglob("*.cc") if f'"{op}"' in path.read_text()]
    if not found:
        raise InternalError(f"No file of {folder} registers {op}.")
    files = _close(found, lambda path: _find_includes(path, sources))
    return _digest(sorted(_read_code(path) for path in files))


@dataclass(frozen=True)
class _Module:
    """Statements of a file: those that run when it is loaded, those that define a name, and its imported names."""

    loading: tuple[ast.stmt, ...]
    defining: Mapping[str, ast.stmt]
    imported: Mapping[str, tuple[Path, str]]


@cache
def _read_module(path: Path) -> _Module:
    loading: list[ast.stmt] = []
    defining: dict[str, ast.stmt] = {}
    imported: dict[str, tuple[Path, str]] = {}
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.ImportFrom):
            file = _find_file(path, statement)
            imported.update({n.asname or n.name: (file, n.name) for n in statement.names if file is not None})
        elif isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            defining[statement.name] = statement
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            defining.update({name: statement for target in targets for name in _list_names(target)})
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            loading.append(statement)
    return _Module(tuple(loading), defining, imported)


def _find_file(path: Path, statement: ast.ImportFrom) -> Path | None:
    parts = (statement.module or "").split(".")
    root = next(folder for folder in path.parents if folder.name == _PACKAGE)
    found = root.joinpath(*parts[1:]).with_suffix(".py")
    return found if parts[0] == _PACKAGE and found.is_file() else None


@cache
def _digest_description(path: Path, line: int) -> str:
    """Return the digest of the statement at `line`, of the loops that register descriptions, and of all code that they use."""
    module = _read_module(path)
    own = [s for s in module.defining.values() if _first_line(s) <= line <= (s.end_lineno or 0)]
    waiting = [(path, s) for s in (*own, *(() if _registers_itself(own) else module.loading))]
    seen: dict[int, str] = {}
    while waiting:
        file, statement = waiting.pop()
        if id(statement) in seen:
            continue
        seen[id(statement)] = _dump(statement)
        module = _read_module(file)
        for name in _list_names(statement):
            found, target = module.imported.get(name, (file, name))
            if (definition := _read_module(found).defining.get(target)) is not None:
                waiting.append((found, definition))
    return _digest(text.encode() for text in sorted(seen.values()))


def _registers_itself(statements: Sequence[ast.stmt]) -> bool:
    return any(isinstance(s, ast.FunctionDef) and s.decorator_list for s in statements)


def _first_line(statement: ast.stmt) -> int:
    decorators: Sequence[ast.expr] = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _list_names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _dump(statement: ast.stmt) -> str:
    copy = ast.parse(ast.unparse(statement))
    for node in ast.walk(copy):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(copy)


def _digest(texts: Iterable[bytes]) -> str:
    digest = sha256()
    for text in texts:
        digest.update(text)
    return digest.hexdigest()[:16]


def _close(paths: Iterable[Path], find_more: Callable[[Path], Iterable[Path]]) -> set[Path]:
    waiting, seen = list(paths), set[Path]()
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += find_more(path)
    return seen


def _find_includes(path: Path, sources: Path) -> list[Path]:
    headers = [sources / name for name in _INCLUDED.findall(path.read_text()) if name.startswith(("nnvm/", "core/"))]
    return [file for header in headers for file in (header, header.with_suffix(".cc")) if file.is_file()]


def _read_code(path: Path) -> bytes:
    code = _COMMENT.sub("", _GUARD.sub("", _INCLUDED.sub("", path.read_text())))
    return "".join(code.split()).encode()
