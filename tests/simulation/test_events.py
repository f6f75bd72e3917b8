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


@pytest.mark.parametrize(
    ("seconds", "streams", "waits", "start", "end"),
    [
        ([1, 2, 3], [0, 0, 0], None, [0, 1, 3], [1, 3, 6]),  # one stream runs one task at a time
        ([1, 2], [0, 1], None, [0, 0], [1, 2]),
        ([1, 5, 1], [0, 1, 0], [(), (), (0, 1)], [0, 0, 5], [1, 5, 6]),
        ([1, 1, 1, 3], [0, 0, 0, 1], [(), (3,), (), ()], [0, 3, 1, 0], [1, 4, 2, 3]),  # the first ready task runs
        ([0, 2, 0, 1], [0, 0, 0, 0], [(), (0,), (0,), (2,)], [0, 0, 0, 2], [0, 2, 0, 3]),  # 0 s occupy no stream
    ],
)
def test_streams_and_dependencies(seconds, streams, waits, start, end):
    assert run(seconds, streams, waits) == (start, end)


@pytest.mark.parametrize(
    ("seconds", "shares", "capacity", "end"),
    [
        ([2, 2], {0: ((0, 1.0),), 1: ((0, 1.0),)}, [1.0], [4, 4]),
        ([1, 3], {0: ((0, 1.0),), 1: ((0, 1.0),)}, [1.0], [2, 4]),  # the longer task goes on alone
        ([2, 2, 2], dict.fromkeys(range(3), ((0, 1.0),)), [2.0], [3, 3, 3]),
        ([2, 2], {0: ((0, 0.5),), 1: ((0, 0.5),)}, [1.0], [2, 2]),
        ([1, 1, 1], {0: ((0, 1.0), (1, 0.1)), 1: ((0, 1.0),), 2: ((1, 0.1),)}, [1.0, 1.0], [2, 2, 1]),
    ],
)
def test_shared_resources(seconds, shares, capacity, end):
    assert run(seconds, [*range(len(seconds))], shares=shares, capacity=capacity)[1] == pytest.approx(end)


@pytest.mark.parametrize("seed", range(20))
def test_no_schedule_beats_its_bounds(seed):
    """Compare with the longest chain and the busiest stream, and with one task after another."""
    rng = np.random.RandomState(seed)
    count, streams = 60, 4
    seconds = rng.randint(0, 5, count).astype(float)
    stream = rng.randint(0, streams, count)
    waits = [tuple(rng.choice(task, min(task, rng.randint(3)), replace=False).tolist()) for task in range(count)]
    start, end = run(seconds.tolist(), stream.tolist(), waits)
    chain = np.zeros(count)
    for task in range(count):
        chain[task] = seconds[task] + max((chain[before] for before in waits[task]), default=0)
    busiest = max(seconds[stream == task_before].sum() for task_before in range(streams))
    assert max(chain.max(), busiest) <= max(end) <= seconds.sum()
    for task, before in enumerate(waits):
        assert all(end[task_before] <= start[task] for task_before in before)
    for task_before in range(streams):
        own = sorted((start[t], end[t]) for t in np.flatnonzero((stream == task_before) & (seconds > 0)))
        assert all(a[1] <= b[0] for a, b in pairwise(own))
