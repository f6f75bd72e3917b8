"""Write and read the record of verified operators. `python -m tofu verify --record` writes it.

An entry is valid until the source of the operator's description or of its kernel changes.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from tofu.verification.comparison import Compared, find_kind
from tofu.verification.report import NodeReport

RECORD = Path(__file__).parent / "record.json"
SOURCES = Path(__file__).parents[3] / "csrc"
_PACKAGE = "tdl_ops"
_OWN_PREFIX = "_tofu_"
_INCLUDE = re.compile(r'^#include "(.+)"\n', re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_GUARD = re.compile(r"^#(?:ifndef|define|endif  //) TOFU_\w+_H_\n", re.MULTILINE)
NEVER_COMPUTED = {"_backward_Embedding": 0, "_backward_softmax_cross_entropy": 1}
"""Operator -> number of an output that MXNet refuses to compute: the gradient of labels or indices."""


@dataclass(frozen=True)
class RecordEntry:
    """Record of the verification of one operator.

    A signature is a combination of attributes, shapes and types.

    Attributes
    ----------
    digest
        Hash of the description's source.
    kernels
        Hash of the C++ source of Tofu's own kernel, or "".
    axes
        Axes along which the operator was run in parts.
    reduced
        Axes along which the parts compute partial results, such as sums.
    is_elementwise
        True if the operator is element-wise for all signatures.
    is_opaque
        True if the description has no formula for some signature.
    compared
        The least reliable way in which an output was compared (see `Compared`).
    cells
        Number of elements compared in each way.
    missed
        Outputs that were never compared, except scratch memory.
    reason
        The reason why numbers were not compared with the description, or "".
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
    """Return the valid entry of each operator. Return {} if the file does not exist."""
    if not path.exists():
        return {}
    entries = {name: _read_entry(fields) for name, fields in json.loads(path.read_text()).items()}
    return {name: entry for name, entry in entries.items() if entry is not None and _is_current(name, entry)}


def write_record(entries: Mapping[str, RecordEntry], path: Path = RECORD) -> None:
    """Write the entries to a file, sorted by name."""
    lines = (f" {json.dumps(name)}: {json.dumps(asdict(entry))}" for name, entry in sorted(entries.items()))
    write_atomically(path, "{\n" + ",\n".join(lines) + "\n}\n")


def make_entries(results: Iterable[CaseResult]) -> dict[str, RecordEntry]:
    """Return an entry for each operator without problems in `results`."""
    reports_by_op: dict[str, list[tuple[NodeReport, int]]] = defaultdict(list)
    broken_operators: set[str] = set()
    for result in results:
        broken_operators |= result.broken_operators
        for node in result.report.nodes:
            reports_by_op[node.op].append((node, 1 + result.trials.verified))
    return {op: _make_entry(op, reports) for op, reports in reports_by_op.items() if op not in broken_operators}


def _make_entry(op: str, reports: Sequence[tuple[NodeReport, int]]) -> RecordEntry:
    nodes = [node for node, _ in reports]
    strategies = [strategy for node in nodes for strategy in node.strategies if strategy.cells]
    comparisons = [comparison for node in nodes for comparison in node.compared]
    cells = Counter[Compared]()
    for comparison in comparisons:
        cells[comparison.kind] += comparison.cells
    outputs = {n for node in nodes for n in node.outputs} - {NEVER_COMPUTED.get(op)}
    compared_outputs = {n for node in nodes for n in node.compared_outputs}
    return RecordEntry(
        digest=digest_of(op),
        kernels=digest_of_kernels(op),
        axes=tuple(dict.fromkeys(strategy.axis for strategy in strategies)),
        reduced=tuple(dict.fromkeys(s.axis for s in strategies if Combine.REDUCE.word in s.combine)),
        is_elementwise=all(node.is_elementwise for node in nodes),
        is_opaque=any(node.is_opaque for node in nodes),
        compared=str(find_kind(comparisons)),
        cells={str(kind): cells[kind] for kind in sorted(cells) if cells[kind]},
        missed=tuple(sorted(outputs - compared_outputs)),
        reason=next((node.checked for node in nodes if node.checked), ""),
        signatures=sum(count for _, count in reports),
    )


def _read_entry(fields: Mapping[str, object]) -> RecordEntry | None:
    if fields.keys() != {field.name for field in dataclass_fields(RecordEntry)}:
        return None
    return RecordEntry(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})  # type: ignore[arg-type]


def _is_current(op: str, entry: RecordEntry) -> bool:
    kernels = digest_of_kernels(op)
    return entry.digest == digest_of(op) and kernels in ("", entry.kernels)


def digest_of(op: str) -> str:
    """Return a hash of the code of an operator's description, without comments and docstrings.

    The code is the description's file, and the files that it imports. Return "" without a description.
    """
    description = DESCRIPTIONS.get(op)
    return "" if description is None else _digest_description(Path(description.place.file))


def digest_of_kernels(op: str, sources: Path = SOURCES) -> str:
    """Return a hash of the C++ code of `op`. Return "" for MXNet's operators, or if the C++ files are not installed."""
    folder = sources / "nnvm"
    if not op.startswith(_OWN_PREFIX) or not folder.is_dir():
        return ""
    registering_files = [path for path in folder.rglob("*.cc") if f'"{op}"' in path.read_text()]
    if not registering_files:
        raise InternalError(f"No file of {folder} registers {op}.")
    files = _add_includes(registering_files, sources)
    return _digest(sorted(_read_code(path) for path in files))


@cache
def _digest_description(path: Path) -> str:
    files = [path]
    for file in files:  # also those that are added
        files += [imported for imported in _list_imported_files(file) if imported not in files]
    return _digest(sorted({_dump_syntax(file) for file in files}))


def _list_imported_files(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith(_PACKAGE):
            root = next((folder for folder in path.parents if folder.name == _PACKAGE), path.parent)
            module = root.joinpath(*node.module.split(".")[1:])
            candidates = (module, *(module / name.name for name in node.names))
            yield from filter(Path.is_file, (candidate.with_suffix(".py") for candidate in candidates))


@cache
def _dump_syntax(path: Path) -> bytes:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree).encode()


def _digest(texts: Iterable[bytes]) -> str:
    digest = sha256()
    for text in texts:
        digest.update(text)
    return digest.hexdigest()[:16]


def _add_includes(paths: Iterable[Path], sources: Path) -> set[Path]:
    files, unvisited = set[Path](), list(paths)
    while unvisited:
        path = unvisited.pop()
        if path not in files:
            files.add(path)
            names = [
                n for n in _INCLUDE.findall(path.read_text()) if n.startswith(("nnvm/", "core/")) or n.endswith(".cuh")
            ]
            headers = [folder / name for name in names for folder in (sources, path.parent)]
            unvisited += [file for h in headers for file in (h, h.with_suffix(".cc")) if file.is_file()]
    return files


def _read_code(path: Path) -> bytes:
    code = _COMMENT.sub("", _GUARD.sub("", _INCLUDE.sub("", path.read_text())))
    return "".join(code.split()).encode()
