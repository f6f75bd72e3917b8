"""When tasks run: streams, what they wait for, and what they share, against times that one works out by hand."""

from itertools import pairwise

import numpy as np
import pytest

from tofu.simulation.events import run_tasks
from tofu.simulation.tasks import Tasks


def run(seconds, streams, waits=None, shares=None, capacity=()):
    count = len(seconds)
    tasks = Tasks(
        np.array(seconds, float),
        np.array(streams),
        tuple(map(tuple, waits or [()] * count)),
        shares or {},
        tuple(capacity),
        np.zeros(count, bool),
        np.array(streams),
        None,
    )
    start, end = run_tasks(tasks)
    return start.tolist(), end.tolist()


def test_one_stream_runs_one_task_at_a_time_in_order():
    assert run([1, 2, 3], [0, 0, 0]) == ([0, 1, 3], [1, 3, 6])


def test_streams_run_beside_each_other():
    assert run([1, 2], [0, 1]) == ([0, 0], [1, 2])


def test_a_task_waits_for_all_that_it_reads():
    start, end = run([1, 5, 1], [0, 1, 0], [(), (), (0, 1)])
    assert start[2] == 5
    assert end[2] == 6


def test_what_is_ready_first_runs_first_whatever_its_number():
    """Task 1 waits for another stream; task 2, behind it, does not."""
    start, _ = run([1, 1, 1, 3], [0, 0, 0, 1], [(), (3,), (), ()])
    assert start == [0, 3, 1, 0]


def test_what_takes_no_time_keeps_no_stream_busy():
    start, end = run([0, 2, 0, 1], [0, 0, 0, 0], [(), (0,), (0,), (2,)])
    assert start == [0, 0, 0, 2]
    assert end == [0, 2, 0, 3]


def test_two_that_share_a_resource_take_twice_as_long():
    shares = {0: ((0, 1.0),), 1: ((0, 1.0),)}
    assert run([2, 2], [0, 1], shares=shares, capacity=[1.0])[1] == [4, 4]


def test_when_one_ends_the_other_goes_on_alone():
    shares = {0: ((0, 1.0),), 1: ((0, 1.0),)}
    assert run([1, 3], [0, 1], shares=shares, capacity=[1.0])[1] == [2, 4]


def test_three_on_two_processors_take_half_as_long_again():
    shares = dict.fromkeys(range(3), ((0, 1.0),))
    assert run([2, 2, 2], [0, 1, 2], shares=shares, capacity=[2.0])[1] == pytest.approx([3, 3, 3])


def test_two_that_each_need_half_are_not_slowed_down():
    shares = {0: ((0, 0.5),), 1: ((0, 0.5),)}
    assert run([2, 2], [0, 1], shares=shares, capacity=[1.0])[1] == [2, 2]


def test_the_most_crowded_resource_counts():
    shares = {0: ((0, 1.0), (1, 0.1)), 1: ((0, 1.0),), 2: ((1, 0.1),)}
    assert run([1, 1, 1], [0, 1, 2], shares=shares, capacity=[1.0, 1.0])[1] == [2, 2, 1]


def test_a_late_one_slows_down_what_is_left():
    """The second starts at 1, when half of the first is done; then both go at half speed."""
    shares = {1: ((0, 1.0),), 2: ((0, 1.0),)}
    _, end = run([1, 2, 1], [0, 1, 0], [(), (), (0,)], shares, [1.0])
    assert end == pytest.approx([1, 3, 3])


@pytest.mark.parametrize("seed", range(20))
def test_no_schedule_beats_its_bounds(seed):
    """Of random tasks: the longest chain and the busiest stream from below, one after the other from above."""
    rng = np.random.RandomState(seed)
    count, streams = 60, 4
    seconds = rng.randint(0, 5, count).astype(float)
    stream = rng.randint(0, streams, count)
    waits = [tuple(rng.choice(task, min(task, rng.randint(3)), replace=False).tolist()) for task in range(count)]
    start, end = run(seconds.tolist(), stream.tolist(), waits)
    chain = np.zeros(count)
    for task in range(count):
        chain[task] = seconds[task] + max((chain[before] for before in waits[task]), default=0)
    busiest = max(seconds[stream == one].sum() for one in range(streams))
    assert max(chain.max(), busiest) <= max(end) <= seconds.sum()
    for task, before in enumerate(waits):
        assert all(end[one] <= start[task] for one in before)
    for one in range(streams):
        own = sorted((start[t], end[t]) for t in np.flatnonzero((stream == one) & (seconds > 0)))
        assert all(a[1] <= b[0] for a, b in pairwise(own))
