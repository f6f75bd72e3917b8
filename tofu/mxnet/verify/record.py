"""What was verified, written down by a machine: `python -m tofu verify --record`.

An entry holds for the sources that it was made from. Where they have changed since, it counts for nothing.
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
from tofu.errors import InternalError
from tofu.mxnet.verify.campaign import CaseResult
from tofu.verification.comparison import Compared
from tofu.verification.report import NodeReport

RECORD = Path(__file__).parent / "record.json"
SOURCES = Path(__file__).parents[3] / "csrc"
_PACKAGE = "tdl_ops"
_OWN = "_tofu_"
_INCLUDED = re.compile(r'^#include "(.+)"\n', re.MULTILINE)
_GUARD = re.compile(r"^#(?:ifndef|define|endif  //) TOFU_\w+_H_\n", re.MULTILINE)
NEVER_GIVEN = {"_backward_Embedding": 0, "_backward_softmax_cross_entropy": 1}
"""The output, called unwritten, that MXNet refuses to be asked for: a gradient by labels."""


@dataclass(frozen=True)
class Entry:
    """What is known about one operator.

    Attributes
    ----------
    digest
        Of the description's sources.
    kernels
        Of the C++ sources of the kernels, where they are Tofu's own; empty where they are MXNet's.
    axes
        All that are strategies at one of the signatures, and were run in parts there.
    reduced
        Those of them under which parts of an output are summed, or the largest taken.
    is_elementwise, is_opaque
        At each signature; at one of them.
    compared
        The weakest way in which an output was compared at a signature, in the words of `Compared`.
    cells
        How many cells were compared in each way, at the signatures of the built-in cases.
    missed
        Outputs of which no cell was compared anywhere, scratch aside.
    reason
        Why the description's numbers were not compared, where they were not.
    signatures
        How many were verified.
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
        """Whether every output was compared."""
        return self.compared != str(Compared.NOTHING) and not self.missed


def read_record(path: Path = RECORD) -> dict[str, Entry]:
    """Return the entries by operator, without those that no longer hold. Installations have no record, and so no entries."""
    if not path.exists():
        return {}
    entries = {name: _read_entry(fields) for name, fields in json.loads(path.read_text()).items()}
    return {name: entry for name, entry in entries.items() if entry is not None and _is_current(name, entry)}


def write_record(entries: Mapping[str, Entry], path: Path = RECORD) -> None:
    """One line for each operator, by name, so that changes can be read."""
    lines = (f" {json.dumps(name)}: {json.dumps(asdict(entry))}" for name, entry in sorted(entries.items()))
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def make_entries(results: Iterable[CaseResult]) -> dict[str, Entry]:
    """The entries of all operators that occur in `results`; none of an operator that has a problem anywhere."""
    nodes: dict[str, list[tuple[NodeReport, int]]] = defaultdict(list)
    broken: set[str] = set()
    for result in results:
        broken |= result.broken_operators
        for node in result.report.nodes:
            nodes[node.op].append((node, 1 + result.trials.verified))
    return {name: _make_entry(name, reports) for name, reports in nodes.items() if name not in broken}


def _make_entry(op: str, reports: Sequence[tuple[NodeReport, int]]) -> Entry:
    nodes = [node for node, _ in reports]
    combine = [(one.axis, one.combine) for node in nodes for one in node.strategies if one.cells]
    cells = Counter[Compared]()
    for node in nodes:
        for one in node.compared:
            cells[one.kind] += one.cells
    asked = {n for node in nodes for n in node.outputs} - {NEVER_GIVEN.get(op)}
    found = {n for node in nodes for n in node.compared_outputs}
    kinds = [node.kind for node in nodes if node.kind is not Compared.NOTHING]
    return Entry(
        digest=digest_of(op),
        kernels=digest_of_kernels(op),
        axes=tuple(dict.fromkeys(axis for axis, _ in combine)),
        reduced=tuple(dict.fromkeys(axis for axis, together in combine if "REDUCE" in together)),
        is_elementwise=all(node.is_elementwise for node in nodes),
        is_opaque=any(node.is_opaque for node in nodes),
        compared=str(_find_weakest(kinds)),
        cells={str(kind): cells[kind] for kind in sorted(cells) if cells[kind]},
        missed=tuple(sorted(asked - found)),
        reason=next((node.checked for node in nodes if node.checked), ""),
        signatures=sum(count for _, count in reports),
    )


def _find_weakest(kinds: Sequence[Compared]) -> Compared:
    """What is left unwritten at one signature does not weaken what is compared at another."""
    written = [kind for kind in kinds if kind is not Compared.UNWRITTEN]
    return max(written or kinds, default=Compared.NOTHING)


def _read_entry(fields: Mapping[str, object]) -> Entry | None:
    """None for what another version wrote."""
    if fields.keys() != {field.name for field in dataclass_fields(Entry)}:
        return None
    return Entry(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})  # type: ignore[arg-type]


def _is_current(op: str, entry: Entry) -> bool:
    kernels = digest_of_kernels(op)
    return entry.digest == digest_of(op) and kernels in ("", entry.kernels)


def digest_of(op: str) -> str:
    """Return the digest of the code that describes `op`; empty without a description.

    It is the code that the description uses, wherever it is in the package, without comments, docstrings and the places of files. So it
    stays the same if other operators are described beside it, and if a function that it calls moves.
    """
    description = DESCRIPTIONS.get(op)
    return "" if description is None else _digest_description(Path(description.place.file), description.place.line)


def digest_of_kernels(op: str, sources: Path = SOURCES) -> str:
    """Of the C++ code that an operator of Tofu's own is compiled from: the file that names it, and what that includes.

    It stays the same where files move. Empty for an operator of MXNet's, and where the sources are not installed. Raises InternalError
    where no file names the operator.
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
    """The statements of a file: those that run as it is loaded, those that define a name, and the names that it imports."""

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
            imported.update({one.asname or one.name: (file, one.name) for one in statement.names if file is not None})
        elif isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            defining[statement.name] = statement
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            defining.update({name: statement for target in targets for name in _list_names(target)})
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            loading.append(statement)
    return _Module(tuple(loading), defining, imported)


def _find_file(path: Path, statement: ast.ImportFrom) -> Path | None:
    """Return the file of the package of descriptions that a statement imports from; None for any other module."""
    parts = (statement.module or "").split(".")
    root = next(folder for folder in path.parents if folder.name == _PACKAGE)
    found = root.joinpath(*parts[1:]).with_suffix(".py")
    return found if parts[0] == _PACKAGE and found.is_file() else None


@cache
def _digest_description(path: Path, line: int) -> str:
    """Return the digest of the statement at a line, of those that register descriptions by loops, and of all that these use."""
    module = _read_module(path)
    own = [one for one in module.defining.values() if _begins(one) <= line <= (one.end_lineno or 0)]
    waiting = [(path, one) for one in (*own, *(() if _registers_itself(own) else module.loading))]
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
    """Return True if a statement is a function that a decorator registers."""
    return any(isinstance(one, ast.FunctionDef) and one.decorator_list for one in statements)


def _begins(statement: ast.stmt) -> int:
    decorators: Sequence[ast.expr] = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *(one.lineno for one in decorators)])


def _list_names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _dump(statement: ast.stmt) -> str:
    """A statement as text, without docstrings."""
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
    """The files, and all that they need."""
    waiting, seen = list(paths), set[Path]()
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += find_more(path)
    return seen


def _find_includes(path: Path, sources: Path) -> list[Path]:
    """The headers of Tofu's that a C++ file includes, each with the file of the same name that implements it."""
    headers = [sources / name for name in _INCLUDED.findall(path.read_text()) if name.startswith(("nnvm/", "core/"))]
    return [one for header in headers for one in (header, header.with_suffix(".cc")) if one.is_file()]


def _read_code(path: Path) -> bytes:
    """A C++ file without the lines that only say where files lie: includes of Tofu's own, and guards."""
    return _GUARD.sub("", _INCLUDED.sub("", path.read_text())).encode()
