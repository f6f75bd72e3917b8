"""Optimizers that train float64."""

from collections.abc import Iterator

import pytest

from tests.shared.module_runs import history_in_double_precision


@pytest.fixture
def double_history() -> Iterator[None]:
    with history_in_double_precision():
        yield
