"""pytest plugin that runs MXNet's tests with every model partitioned."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SEED = "1"  # all runs of a test draw the same numbers


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--way", help="A name of WAYS.")
    parser.addoption("--partition-over", type=int, help="Number of workers.")
    parser.addoption("--test-seconds", type=float, help="Limit of one test, after which its process ends.")


def pytest_configure(config: Any) -> None:
    if not hasattr(config, "workerinput"):
        return
    import tofu  # noqa: F401  before MXNet, which it makes importable
    from tests.campaigns.mxnet_suite.nose_tools import install_nose
    from tests.campaigns.mxnet_suite.ways import WAYS

    os.environ.update(MXNET_TEST_SEED=SEED, MXNET_MODULE_SEED=SEED)
    sys.path[:0] = [str(Path(argument).parent) for argument in config.args]
    install_nose()
    WAYS[config.getoption("way")](config.getoption("partition_over"))


@pytest.fixture(autouse=True)
def limit_time(request: Any, tmp_path: Path, monkeypatch: Any) -> Iterator[None]:
    """Run each test in an empty folder. End the process if the test takes too long."""
    monkeypatch.chdir(tmp_path)
    faulthandler.dump_traceback_later(request.config.getoption("test_seconds"), exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
