"""docs/tutorial-jax.md: its code runs from top to bottom and prints what the page shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaigns.jax_equality import COMPILED_FAST

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/tutorial-jax.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def run(*arguments, folder):
    given = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": COMPILED_FAST}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=given, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.rstrip() for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_the_code_prints_what_the_page_shows(tmp_path):
    """Compare beginnings of lines in order; the page may leave lines out."""
    code = [block for kind, block in BLOCKS if kind == "python"]
    (tmp_path / "page.py").write_text("\nprint('--- next ---')\n".join(code))
    parts, printed = [[]], run("page.py", folder=tmp_path)
    for line in printed:
        parts.append([]) if line == "--- next ---" else parts[-1].append(line)
    stated = [block.splitlines() for kind, block in BLOCKS if kind == "text"]
    assert len(parts) == len(stated) == len(code)
    for lines, wanted in zip(parts, stated, strict=True):
        left = iter(lines)
        missing = [line for line in wanted if not any(output.startswith(line) for output in left)]
        assert missing == [], "\n".join(lines)
    assert "<title>step: 8 workers</title>" in (tmp_path / "plan.html").read_text()
