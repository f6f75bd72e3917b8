"""Steps on the devices of several processes, which stand for hosts, against the step on one device."""

from __future__ import annotations

import pytest

from tests.jax.processes import run


@pytest.mark.parametrize(
    ("name", "feed", "count", "devices"),
    [
        ("mlp", "whole", 2, 2),
        ("mlp", "parts", 2, 2),
        ("mlp", "parts", 4, 1),
        ("transformer", "whole", 2, 2),
        ("transformer", "parts", 4, 1),
    ],
)
def test_it_trains_as_on_one_device(name, feed, count, devices):
    """Three steps in double precision, whose batches each process has all of, or its part."""
    told = run("train", count, devices, name, feed)
    assert len({one["plan"] for one in told}) == 1
    assert told[0]["factors"] == [2, 2]
    for one in told:
        assert one["distance"] < 1e-10
        assert len({expected for _, expected in one["losses"]}) == 3, "the step does not train"
        assert one["losses"] == told[0]["losses"], "a result that all have is the same in all"
        assert one["held_bytes"] < 1.01 * one["whole_bytes"] / count


@pytest.mark.parametrize("name", ["mlp", "transformer"])
def test_what_crosses_hosts_is_what_the_plan_counts(name):
    """In XLA's own text; and it is less than without levels."""
    for one in run("count", 2, 2, name, double=False):
        for moved, planned in zip(one["moved"], one["planned"], strict=True):
            assert 0.9 <= moved / planned <= 1.02
        assert one["planned"][0] < one["without_levels"]
