from __future__ import annotations

import hashlib
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = "docs/evaluation"


@cache
def name_tree() -> str:
    """Return the commit, followed by a digest of uncommitted changes to sources if there are any."""
    commit = _run_git("rev-parse", "--short", "HEAD").strip() or "unknown"
    changed = _run_git("diff", "HEAD", "--", ".", f":!{RESULTS}")
    for name in _run_git("ls-files", "--others", "--exclude-standard", "*.py", "*.cc", "*.h").splitlines():
        changed += name + (ROOT / name).read_text()
    return commit + (f"+{hashlib.sha256(changed.encode()).hexdigest()[:8]}" if changed else "")


def _run_git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False).stdout
