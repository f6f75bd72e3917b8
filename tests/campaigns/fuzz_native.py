"""Damage encoded programs and texts of fetches, and read them in C++ under AddressSanitizer and UBSan.

    python -m tests.campaigns.fuzz_native --seconds 60

Builds `tests/core/fuzz_decoders.cc` in build/fuzz. The exit code is 1 if a sanitizer reports an error.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
FEWEST_INPUTS = 1000  # of a valid run
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def build(folder: Path, compiler: str = "g++") -> Path:
    """Build the program and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "fuzz_decoders"
    folders = ["-I", str(ROOT / "csrc"), "-I", str(ROOT / "tests/core")]
    sources = [str(ROOT / name) for name in ("tests/core/fuzz_decoders.cc", "csrc/core/program/program_tables.cc")]
    options = ["-std=c++17", "-O1", "-g", *SANITIZERS, *folders]
    subprocess.run([compiler, *options, *sources, "-o", str(program)], check=True)
    return program


@click.command()
@click.option("--seconds", type=click.IntRange(1), default=60, show_default=True)
def main(seconds: int) -> None:
    """Read damaged programs and texts."""
    done = subprocess.run([build(ROOT / "build/fuzz"), str(seconds)], stdout=subprocess.PIPE, text=True)
    click.echo(done.stdout, nl=False)
    if done.returncode or int(done.stdout.split()[0]) < FEWEST_INPUTS:
        sys.exit(1)


if __name__ == "__main__":
    main()
