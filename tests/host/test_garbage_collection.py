from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tofu.host.garbage_collection import NEW_OBJECTS, collect_rarely


@pytest.fixture(autouse=True)
def restore_threshold() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("before", "during"), [(701, NEW_OBJECTS), (0, 0), (NEW_OBJECTS, NEW_OBJECTS), (10 * NEW_OBJECTS, 10 * NEW_OBJECTS)]
)
def test_collection_is_rare_during_planning_and_as_before_after_it(before: int, during: int) -> None:
    gc.set_threshold(before, 11, 12)

    @collect_rarely()
    def fail() -> None:
        with collect_rarely():
            assert gc.get_threshold()[:2] == (during, 11)
        raise ValueError("an error of the step")

    with pytest.raises(ValueError, match="an error of the step"):
        fail()
    assert gc.get_threshold()[:2] == (before, 11)
