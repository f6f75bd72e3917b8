"""Fixtures and settings of all tests: quiet, reproducible numerics and golden files."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the suite runs a process per core

import tofu  # noqa: F401  makes MXNet importable
from tdl_ops.mxnet import DESCRIPTIONS
from tofu.planning import progress
from tofu.tdl import Description

progress.SILENT_SECONDS = math.inf  # a slow machine must not print more than a fast one
gc.set_threshold(100_000, 20, 100)  # garbage collection took a tenth of the time of JAX's tests


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write golden files anew instead of comparing with them")


@pytest.fixture
def descriptions(monkeypatch: pytest.MonkeyPatch) -> dict[str, Description]:
    """Return the descriptions of MXNet's operators as a dict, which a test may change."""
    monkeypatch.setattr(DESCRIPTIONS, "_described", DESCRIPTIONS.copy())
    return DESCRIPTIONS._described


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[str | Path, str], None]:
    """Return a function that compares a text with a file below `golden` beside the test; `pytest --update` writes the file."""

    def check(file: str | Path, text: str) -> None:
        path = request.path.parent / "golden" / file
        if request.config.getoption("update"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"there is no {path}: pytest --update writes it"
        assert text == path.read_text(), (
            f"{path} is another text; where the new one is right, pytest --update writes it"
        )

    return check
