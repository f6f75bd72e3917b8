"""Every benchmark can be imported and prints its help. The demo trains, and all byte counts agree."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HELP = """
from importlib import import_module

from benchmarks.__main__ import list_benchmarks

for module, _ in list_benchmarks():
    main = getattr(import_module(module), "main", None) or import_module(f"{module}.__main__").main
    for words in [], *([name] for name in getattr(main, "commands", ())):
        try:
            main([*words, "--help"])
        except SystemExit as ended:
            assert ended.code == 0, (module, *words)
        print("printed the help of", module, *words)
"""


def run(*arguments):
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_benchmark_prints_its_help():
    listed = re.findall(r"python -m ([\w.]+)", run("-m", "benchmarks"))
    printed = re.findall(r"printed the help of ([\w.]+)$", run("-c", HELP), re.MULTILINE)
    assert printed == listed


@pytest.mark.slow
def test_demo_counts_its_bytes_alike(tmp_path):
    printed = run("-m", "benchmarks.demo", "--epochs=1", "--samples=128", "--filters=8", "--output", str(tmp_path))
    counts = re.findall(r"^(?:planned|counted|measured), .*?([\d,]+)$", printed, re.MULTILINE)
    assert len(counts) == 3
    assert len(set(counts)) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"demo.png", "plan.json", "results.json"}
