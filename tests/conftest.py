"""Shared by all tests: quiet, reproducible numerics, and texts that are compared with golden files."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the suite runs a process per core

import tofu  # noqa: F401  makes MXNet importable
from tdl_ops.mxnet import DESCRIPTIONS
from tofu.tdl import Description


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write golden files anew instead of comparing with them")


@pytest.fixture
def descriptions(monkeypatch: pytest.MonkeyPatch) -> dict[str, Description]:
    """The descriptions of MXNet's operators as a dict, which a test may change."""
    monkeypatch.setattr(DESCRIPTIONS, "_described", DESCRIPTIONS.copy())
    return DESCRIPTIONS._described


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with the file of that name in the folder `golden` beside the test; `pytest --update` writes the file."""
    folder = request.path.parent / "golden"

    def check(name: str, text: str) -> None:
        path = folder / name
        if request.config.getoption("update"):
            folder.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"there is no {path}: pytest --update writes it"
        assert text == path.read_text(), (
            f"{path} is another text; where the new one is right, pytest --update writes it"
        )

    return check
