"""The garbage collector is as it was after planning, whatever happened."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tofu.host.garbage_collection import OBJECTS, collect_rarely


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Tests may leave the collector as they like."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_collects_rarely_and_then_as_before() -> None:
    gc.set_threshold(701, 11, 12)
    with collect_rarely():
        assert gc.get_threshold()[:2] == (OBJECTS, 11)
        with collect_rarely():
            assert gc.get_threshold()[0] == OBJECTS
        assert gc.get_threshold()[0] == OBJECTS
    assert gc.get_threshold()[:2] == (701, 11)


def test_errors_leave_it_as_before() -> None:
    gc.set_threshold(701)

    @collect_rarely()
    def fail() -> None:
        raise ValueError("of the user's step")

    with pytest.raises(ValueError, match="of the user's step"):
        fail()
    assert gc.get_threshold()[0] == 701


@pytest.mark.parametrize("objects", [0, OBJECTS, 10 * OBJECTS])
def test_what_is_off_or_rarer_stays(objects: int) -> None:
    gc.set_threshold(objects)
    with collect_rarely():
        assert gc.get_threshold()[0] == objects
    assert gc.get_threshold()[0] == objects
