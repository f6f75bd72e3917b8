"""docs/tutorial-jax.md: its code runs from top to bottom and prints what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.campaigns.jax_equality import COMPILED_FAST
from tests.docs.test_docs import BLOCK

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/tutorial-jax.md").read_text()
BLOCKS = [(block[1], block[2]) for block in BLOCK.finditer(TEXT)]
COMMAND = re.compile(r"\$ python (-m tofu .*)")


def run(*arguments, folder):
    """What Python prints, by lines without what stands at their ends."""
    given = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": COMPILED_FAST}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=given, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.rstrip() for line in done.stdout.splitlines()]


def test_the_code_prints_what_the_page_says(tmp_path):
    """Each line of a text block begins a line that the code before it prints, in this order, and may leave lines out."""
    code = [block for kind, block in BLOCKS if kind == "python"]
    (tmp_path / "page.py").write_text("\nprint('--- next ---')\n".join(code))
    parts, printed = [[]], run("page.py", folder=tmp_path)
    for line in printed:
        parts.append([]) if line == "--- next ---" else parts[-1].append(line)
    stated = [block.splitlines() for kind, block in BLOCKS if kind == "text"]
    assert len(parts) == len(stated) == len(code)
    for lines, wanted in zip(parts, stated, strict=True):
        left = iter(lines)
        missing = [line for line in wanted if not any(one.startswith(line) for one in left)]
        assert missing == [], "\n".join(lines)
    assert "<title>step: 8 workers</title>" in (tmp_path / "plan.html").read_text()


def test_the_commands_run(tmp_path):
    commands = [
        COMMAND.fullmatch(line)[1] for kind, block in BLOCKS if kind == "console" for line in block.splitlines()
    ]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    assert len(commands) == 2
    printed = [run(*shlex.split(command), folder=tmp_path) for command in commands]
    assert printed[0][0].startswith("8 workers")
    assert (tmp_path / "plan.json").exists()
    assert printed[1][0].endswith("each of 8 workers")
