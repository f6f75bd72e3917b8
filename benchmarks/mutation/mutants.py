"""The planted bugs, as data: every table of `mutants/*.toml` is one, and `equivalent.toml` says which of them change nothing.

    tests = ["tests/search"]                  # of the file: what catches a bug that names no tests

    [halo_one_short]
    file = "csrc/core/geometry/geometry.cc"
    before = "region.end += std::max(at_begin, at_last);"     # must occur exactly once
    after = "region.end += std::max(at_begin, at_last) - 1;"
    breaks = "a region lacks its last cell"
    tests = ["tests/core/test_geometry.cc", "tests/search/test_program.py"]

A test is a file for pytest, maybe with `::name` or ` -k "words"`, or a C++ test of `tests/core` or `tests/cuda`; they run in this
order, up to the first that fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli

FOLDER = Path(__file__).parent / "mutants"
EQUIVALENT = Path(__file__).parent / "equivalent.toml"


@dataclass(frozen=True)
class Mutant:
    """One planted bug.

    Attributes
    ----------
    name
        Area and bug: the stem of its file and its table.
    file
        What is changed, from the root of the repository.
    before, after
        The text that is there, once, and what takes its place.
    breaks
        What goes wrong then.
    tests
        Those that should notice.
    proof
        Why nothing can notice, where that is so.
    """

    name: str
    file: str
    before: str
    after: str
    breaks: str
    tests: tuple[str, ...]
    proof: str = ""

    @property
    def digest(self) -> str:
        """Tells apart what was planted and looked for under one name at different times."""
        content = repr((self.file, self.before, self.after, self.tests)).encode()
        return hashlib.blake2b(content, digest_size=6).hexdigest()

    @property
    def is_native(self) -> bool:
        """Whether something has to be compiled."""
        return self.file.startswith("csrc/")

    def plant(self, text: str) -> str:
        """The file's text with the bug. Raises ValueError where the place is not there, or not the only one."""
        count = text.count(self.before)
        if count != 1:
            raise ValueError(f"{self.file} has {self.before!r} {count} times: the bug needs exactly one place")
        return text.replace(self.before, self.after)


def read_mutants(folder: Path = FOLDER, equivalent: Path = EQUIVALENT) -> tuple[Mutant, ...]:
    """All planted bugs: those in Python first, and those of one file together, so that little is compiled."""
    proofs = tomli.loads(equivalent.read_text()) if equivalent.exists() else {}
    mutants = []
    for path in sorted(folder.glob("*.toml")):
        content = tomli.loads(path.read_text())
        default = content.pop("tests", [])
        mutants += [_read(f"{path.stem}/{name}", entry, default, proofs) for name, entry in content.items()]
    unknown = proofs.keys() - {mutant.name for mutant in mutants}
    if unknown:
        raise ValueError(f"{equivalent.name} speaks of bugs that are not planted: {', '.join(sorted(unknown))}")
    return tuple(sorted(mutants, key=lambda mutant: (mutant.is_native, mutant.file, mutant.name)))


def _read(name: str, entry: Mapping[str, Any], default: list[str], proofs: Mapping[str, str]) -> Mutant:
    fields = {"file", "before", "after", "breaks"}
    if entry.keys() - {"tests"} != fields:
        raise ValueError(f"{name} has {', '.join(entry)}; it needs {', '.join(sorted(fields))}, and may have tests")
    tests = tuple(entry.get("tests", default))
    if not tests:
        raise ValueError(f"{name} names no tests, and neither does its file")
    return Mutant(name, **{field: entry[field] for field in fields}, tests=tests, proof=proofs.get(name, ""))
