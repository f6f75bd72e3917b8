"""Simulate a step event by event: compute when each task starts and ends.

A *stream* is a queue of a device. It runs one task at a time, in the order in which tasks become ready. If the tasks
that use a resource, such as a link, demand more than its capacity, all of them slow down by the same factor. A task is
as fast as its slowest resource allows.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import numpy as np

from tofu.simulation.tasks import Share, Tasks
from tofu.simulation.work import Floats

NEVER = float("inf")


def run_tasks(tasks: Tasks) -> tuple[Floats, Floats]:
    """Return the start and the end of each task, in seconds after the first task's start."""
    events = _Events(tasks)
    events.run()
    return np.array(events.start), np.array(events.end)


class _Events:
    def __init__(self, tasks: Tasks) -> None:
        self._seconds: list[float] = tasks.seconds.tolist()
        self._stream: list[int] = tasks.stream.tolist()
        self._shares = tasks.shares
        self._wait_count = [len(needed_tasks) for needed_tasks in tasks.waits_for]
        self._readers: list[list[int]] = [[] for _ in range(len(tasks))]
        for task, needed_tasks in enumerate(tasks.waits_for):
            for needed_task in needed_tasks:
                self._readers[needed_task].append(task)
        stream_count = 1 + max(self._stream, default=0)
        self._queues: list[list[tuple[float, int]]] = [[] for _ in range(stream_count)]
        self._is_free = [True] * stream_count
        self._ends: list[tuple[float, int]] = []  # a heap of the running tasks that share no resource
        self._sharing_tasks = _SharingTasks(tasks.capacity)
        self.start = [0.0] * len(tasks)
        self.end = [0.0] * len(tasks)

    def run(self) -> None:
        for task in [task for task, count in enumerate(self._wait_count) if count == 0]:
            self._make_ready(task, 0.0)
        self._start_all(0.0, range(len(self._queues)))
        while self._ends or self._sharing_tasks.running:
            next_known_end = self._ends[0][0] if self._ends else NEVER
            next_sharing_end = self._sharing_tasks.next_end
            now = min(next_known_end, next_sharing_end)
            ended_tasks = []
            if next_sharing_end <= next_known_end:
                ended_tasks += self._sharing_tasks.pop_ended(now)
            while self._ends and self._ends[0][0] <= now:
                ended_tasks.append(heapq.heappop(self._ends)[1])
            affected_streams = set()
            for task in ended_tasks:
                affected_streams.add(self._stream[task])
                self._is_free[self._stream[task]] = True
                affected_streams.update(self._finish(task, now))
            self._start_all(now, affected_streams)

    def _finish(self, task: int, now: float) -> list[int]:
        self.end[task] = now
        affected_streams = []
        for reader in self._readers[task]:
            self._wait_count[reader] -= 1
            if self._wait_count[reader] == 0:
                affected_streams += self._make_ready(reader, now)
        return affected_streams

    def _make_ready(self, task: int, now: float) -> list[int]:
        if self._seconds[task] > 0:
            heapq.heappush(self._queues[self._stream[task]], (now, task))
            return [self._stream[task]]
        self.start[task] = now  # a task without duration occupies no stream
        return self._finish(task, now)

    def _start_all(self, now: float, streams: Iterable[int]) -> None:
        for stream in streams:
            queue = self._queues[stream]
            if self._is_free[stream] and queue:
                task = heapq.heappop(queue)[1]
                self._is_free[stream] = False
                self.start[task] = now
                shares = self._shares.get(task)
                if shares is None:
                    heapq.heappush(self._ends, (now + self._seconds[task], task))
                else:
                    self._sharing_tasks.add(task, self._seconds[task], shares, now)


class _SharingTasks:
    def __init__(self, capacity: Sequence[float]) -> None:
        self._capacity = capacity
        self._demand = [0.0] * len(capacity)
        self._seconds_left: dict[int, float] = {}
        self._pace: dict[int, float] = {}  # 1 for a task that no resource slows down
        self.running: dict[int, tuple[Share, ...]] = {}
        self._now = 0.0
        self._is_current = True
        self._next_end = NEVER

    def add(self, task: int, seconds: float, shares: tuple[Share, ...], now: float) -> None:
        self._advance(now)
        self.running[task] = shares
        self._seconds_left[task] = seconds
        for resource, share in shares:
            self._demand[resource] += share
        self._is_current = False

    @property
    def next_end(self) -> float:
        if not self._is_current:
            slow = [max(1.0, asked / capacity) for asked, capacity in zip(self._demand, self._capacity, strict=True)]
            self._pace = {
                task: 1 / max(slow[resource] for resource, _ in shares) for task, shares in self.running.items()
            }
            waits = (self._seconds_left[task] / self._pace[task] for task in self.running)
            self._next_end = self._now + min(waits, default=NEVER)
            self._is_current = True
        return self._next_end

    def pop_ended(self, now: float) -> list[int]:
        self._advance(now)
        least_seconds = min(self._seconds_left[task] / self._pace[task] for task in self.running)
        ended = [task for task in self.running if self._seconds_left[task] / self._pace[task] <= least_seconds + 1e-12]
        for task in ended:
            for resource, share in self.running.pop(task):
                self._demand[resource] -= share
            del self._seconds_left[task]
        self._is_current = False
        return ended

    def _advance(self, now: float) -> None:
        seconds, self._now = now - self._now, now
        if seconds > 0 and self.running:
            if not self._is_current:
                raise AssertionError("paces are computed before time passes")
            for task in self.running:
                self._seconds_left[task] -= seconds * self._pace[task]
