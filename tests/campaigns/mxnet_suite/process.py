"""One process that runs the tests of a file in one way and tells each result as it comes."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

SEED = "1"  # of every test, so that all ways draw the same numbers


class _Reporter:
    """A plugin of pytest that sends what is collected, what begins and how it ends."""

    def __init__(self, connection: Any, chosen: str, done: Collection[str]) -> None:
        self.connection = connection
        self.chosen = chosen
        self.done = done

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.connection.send(("broken", "", _first_line(report)))

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if self.chosen in item.name and item.name not in self.done]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.connection.send(("begun", _name(nodeid), ""))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or (report.when == "setup" and not report.passed):
            self.connection.send((report.outcome, _name(report.nodeid), "" if report.passed else _first_line(report)))


def _name(nodeid: str) -> str:
    return nodeid.partition("::")[2]


def _first_line(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message.strip().splitlines()[0])
    text = report.longrepr[-1] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    lines = [line.removeprefix("E ").strip() for line in str(text).strip().splitlines()]
    return lines[-1] if lines else "no message"


def run_tests(connection: Any, path: Path, way: str, workers: int, chosen: str, done: Collection[str]) -> None:
    """Run the tests of a file whose names have `chosen` in them, without those that are `done`, in an empty folder."""
    import pytest

    import tofu  # noqa: F401  before MXNet, which it makes importable
    from tests.campaigns.mxnet_suite.nose_tools import install_nose
    from tests.campaigns.mxnet_suite.ways import WAYS

    os.environ.update(MXNET_TEST_SEED=SEED, MXNET_MODULE_SEED=SEED)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.path.insert(0, str(path.parent))
    install_nose()
    WAYS[way](workers)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        options = ["-q", "-c", os.devnull, "--rootdir", folder, "-p", "no:cacheprovider", "-W", "ignore"]
        pytest.main([*options, str(path)], plugins=[_Reporter(connection, chosen, done)])
    connection.send(("ended", "", ""))
    os._exit(0)  # what MXNet does when it is unloaded belongs to no test
