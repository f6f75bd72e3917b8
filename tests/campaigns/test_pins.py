from dataclasses import replace

import pytest

from tests.campaigns import pins
from tests.campaigns.fuzz.models import choose_kind
from tests.models.paper.by_name import MEASURED


def test_plans_of_some_random_models_are_unchanged():
    found = pins.make_pins("chains 8")
    assert len(found) == len(pins.WORKERS)
    assert pins.compare(found, pins.read_pins(pins.PATH)) == []


PROVED = pins.Pin(is_proved=True, moved_bytes=1000, worker_bytes=50, digest="d")
UNPROVED = replace(PROVED, is_proved=False)


@pytest.mark.parametrize(
    ("before", "change", "said"),
    [
        (PROVED, {}, ""),
        (PROVED, {"digest": "e"}, "other splits, 1,000 bytes as before; a worker needs 50, 50 before"),
        (PROVED, {"moved_bytes": 999}, "fewer bytes: 999 moved, 1,000 before"),
        (PROVED, {"moved_bytes": 1001}, "more bytes: 1,001 moved, 1,000 before"),
        (PROVED, {"is_proved": False}, "not proved now"),
        (PROVED, {"is_refused": True}, "refused now"),
        (UNPROVED, {"moved_bytes": 999, "digest": "e", "is_proved": True}, ""),
        (UNPROVED, {"moved_bytes": 1001}, "more bytes: 1,001 moved, 1,000 before"),
        (pins.Pin(is_refused=True), {"is_refused": False}, "planned now"),
    ],
)
def test_change_of_a_plan_is_reported(before, change, said):
    assert pins.describe_change(replace(before, **change), before) == said


def test_every_model_is_pinned_for_every_number_of_workers():
    names = [*MEASURED, *(f"{choose_kind(seed, 'all')} {seed}" for seed in range(pins.RANDOM_MODELS))]
    assert list(pins.read_pins(pins.PATH)) == [f"{name} / {workers}" for name in names for workers in (2, 3, 4, 6, 8)]
    assert len(names) == 54
