"""What was verified, written down by a machine: `python -m tofu verify --record`.

An entry holds for the sources that it was made from. Where they have changed since, it counts for nothing.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from tofu.tdl import Description, lookup
from tofu.verify.campaign import CaseResult

RECORD = Path(__file__).parent / "record.json"
_DESCRIPTIONS = "tdl_ops"


@dataclass(frozen=True)
class Entry:
    """What is known about one operator.

    Attributes
    ----------
    digest
        Of the description's sources.
    axes
        All that are strategies at one of the signatures.
    reduced
        Those of them under which parts of an output are summed, or the largest taken.
    is_elementwise, is_opaque
        At each signature; at one of them.
    checked
        What was compared with the kernel: numbers, or what else.
    signatures
        How many were verified.
    """

    digest: str
    axes: tuple[str, ...]
    reduced: tuple[str, ...]
    is_elementwise: bool
    is_opaque: bool
    checked: str
    signatures: int


def read_record(path: Path = RECORD) -> dict[str, Entry]:
    """The entries by operator, those that no longer hold left out."""
    entries = {name: _read_entry(fields) for name, fields in json.loads(path.read_text()).items()}
    return {name: entry for name, entry in entries.items() if entry.digest == digest_of(name)}


def write_record(entries: Mapping[str, Entry], path: Path = RECORD) -> None:
    """One line for each operator, by name, so that changes can be read."""
    lines = (f" {json.dumps(name)}: {json.dumps(asdict(entry))}" for name, entry in sorted(entries.items()))
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def make_entries(results: Iterable[CaseResult]) -> dict[str, Entry]:
    """The entries of all operators that occur in `results`; none of an operator that has a problem anywhere."""
    found: dict[str, Entry] = {}
    broken: set[str] = set()
    for result in results:
        for node in result.report.nodes:
            if node.op in result.broken_operators:
                broken.add(node.op)
                continue
            combine = [(strategy.axis, strategy.combine) for strategy in node.strategies]
            entry = Entry(
                digest=digest_of(node.op),
                axes=tuple(axis for axis, _ in combine),
                reduced=tuple(axis for axis, together in combine if "REDUCE" in together),
                is_elementwise=node.is_elementwise,
                is_opaque=node.is_opaque,
                checked="numbers" if node.description_error is not None else node.checked,
                signatures=1 + result.trials.verified,
            )
            found[node.op] = _join(found[node.op], entry) if node.op in found else entry
    return {name: entry for name, entry in found.items() if name not in broken}


def _join(one: Entry, other: Entry) -> Entry:
    return Entry(
        one.digest,
        tuple(dict.fromkeys(one.axes + other.axes)),
        tuple(dict.fromkeys(one.reduced + other.reduced)),
        one.is_elementwise and other.is_elementwise,
        one.is_opaque or other.is_opaque,
        one.checked if one.checked == "numbers" else other.checked,
        one.signatures + other.signatures,
    )


def _read_entry(fields: Mapping[str, object]) -> Entry:
    return Entry(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})  # type: ignore[arg-type]


def digest_of(op: str) -> str:
    """Of the file that describes `op` and of those of the same package that it imports; empty without a description."""
    description = lookup(op)
    return "" if description is None else _digest_file(_file_of(description))


def _file_of(description: Description) -> Path:
    return Path(description.place.file)


@cache
def _digest_file(path: Path) -> str:
    sources, seen = [path], set[Path]()
    while sources:
        source = sources.pop()
        if source not in seen:
            seen.add(source)
            sources += _find_imports(source)
    digest = sha256()
    for source in sorted(seen):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _find_imports(path: Path) -> list[Path]:
    """The files of the descriptions' package that a file imports from."""
    imports = [
        node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
    ]
    names = [module.removeprefix(f"{_DESCRIPTIONS}.") for module in imports if module.startswith(f"{_DESCRIPTIONS}.")]
    return [path.parent / f"{name}.py" for name in names]
