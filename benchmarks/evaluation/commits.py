"""Which commit the tables of the evaluation are of."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

FILE = "commits.json"


def find_commit() -> str:
    """The commit of the tree."""
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def read_commits(folder: Path) -> dict[str, str]:
    """Part of the evaluation -> the commit that it was measured with."""
    path = folder / FILE
    return dict(json.loads(path.read_text())) if path.exists() else {}


def note_commit(folder: Path, part: str) -> None:
    """A part was measured now."""
    commits = {**read_commits(folder), part: find_commit()}
    (folder / FILE).write_text(json.dumps(dict(sorted(commits.items())), indent=1) + "\n")
