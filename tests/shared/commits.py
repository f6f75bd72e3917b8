"""Which commit results are of: kept results of one are none of another."""

from __future__ import annotations

import hashlib
import json
import subprocess
from functools import cache
from pathlib import Path

FILE = "commits.json"
ROOT = Path(__file__).parents[2]
RESULTS = "docs/evaluation"


def find_commit() -> str:
    """The commit of the tree."""
    return _run_git("rev-parse", "--short", "HEAD").strip() or "unknown"


@cache
def name_tree() -> str:
    """The commit, and a digest of what is changed since and of sources that git does not know. Results, which one part of a run after the
    other writes, are no sources.
    """
    changed = _run_git("diff", "HEAD", "--", ".", f":!{RESULTS}")
    for name in _run_git("ls-files", "--others", "--exclude-standard", "*.py", "*.cc", "*.h").splitlines():
        changed += name + (ROOT / name).read_text()
    return find_commit() + (f"+{hashlib.sha256(changed.encode()).hexdigest()[:8]}" if changed else "")


def _run_git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False).stdout


def read_commits(folder: Path) -> dict[str, str]:
    """Part of the evaluation -> the commit that it was measured with."""
    path = folder / FILE
    return dict(json.loads(path.read_text())) if path.exists() else {}


def note_commit(folder: Path, part: str, tree: str) -> None:
    """A part was measured with a tree, the one that was there when its run began."""
    commits = {**read_commits(folder), part: tree}
    (folder / FILE).write_text(json.dumps(dict(sorted(commits.items())), indent=1) + "\n")
