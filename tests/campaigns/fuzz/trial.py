from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import mxnet as mx

import tofu
from tests.campaigns.fuzz.judge import find_differences, follow_drawn, judge, measure_noise
from tests.campaigns.fuzz.plans import Asked, list_plans
from tests.campaigns.fuzz.reference import Results, bind, run, run_alone
from tests.campaigns.fuzz.sample import FuzzSample
from tests.shared.allocation import allocated_bytes
from tests.shared.training import fill_free_memory
from tofu.errors import TofuError
from tofu.mxnet.backend.buffers import add_up_workers, plan_buffers
from tofu.mxnet.check.execution import count_remote_bytes
from tofu.mxnet.planning import plan_task
from tofu.mxnet.runtime.executor.executor import Executor
from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol
from tofu.pipeline import Partition, Task

LONGEST_MESSAGE = 2000


@dataclass
class FuzzResult:
    """Counts of plans that ran and that were refused, by kind. In a dispute, one device is wrong."""

    stage: str = "died"
    workers: int = 0
    plans: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    disputes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0  # processor time


class Trial:
    def __init__(self, sample: FuzzSample, workers: int) -> None:
        self.sample = sample
        self.expected = run_alone(sample)
        self.noise: Results | None = None
        self.outcome = FuzzResult("done", workers)
        self.task: Task | None = None

    def partition(self, asked: Asked) -> PartitionedSymbol:
        """The analysis for the default plan is used again for other plans."""
        symbol = tofu.partition(self.sample.symbol, self.outcome.workers, cache=False, **asked)
        if self.task is not None:
            task = self.task
            symbol.compile_for = lambda *_args, settings=None, **_kwargs: plan_task(
                replace(task, settings=settings or symbol.settings)
            )
        return symbol

    def check(self, kind: str, asked: Asked, thorough: bool = False) -> Partition | None:
        """Record failures under a plan. Return None if the plan is refused."""
        fill_free_memory()
        try:
            executor = bind(self.sample, self.partition(asked), self.sample.requests)
        except TofuError as refusal:
            _count(self.outcome.refused, f"{kind}: {type(refusal).__name__}")
            return None
        except Exception as error:  # any other error is a failure
            self._fail(type(error).__name__, kind, str(error))
            return None
        _count(self.outcome.plans, kind)
        partition: Partition = executor.sharded.partition
        try:
            self._check_bound(executor, kind, thorough)
        except Exception as error:
            self._fail(type(error).__name__, kind, str(error))
        return partition

    def _check_bound(self, executor: Executor, kind: str, thorough: bool) -> None:
        partition: Partition = executor.sharded.partition
        plan = partition.plan
        emitted = count_remote_bytes(partition.training.symbol)
        steps = 2 if thorough else 1
        found, moved = run(self.sample, executor, steps, is_scored=thorough)
        counts = {"planned": plan.communication_bytes, "emitted": emitted, "read": moved[0], "read again": moved[-1]}
        counts |= {"by steps": sum(plan.step_bytes), "by levels": sum(plan.level_bytes)}
        if len(set(counts.values())) > 1:
            self._fail("bytes", kind, f"bytes of a step: {counts}")
        self._check_numbers(partition, found, kind)
        if thorough:
            shards = [array for variable in executor.sharded.variables.values() for array in variable.arrays]
            training = executor.sharded._training_graph  # it may keep gradients, which the plan does not count
            allocated = allocated_bytes(training.bound, plan.workers, shards)
            planned = add_up_workers(partition.choices, plan_buffers(partition.choices, training.execution))
            if allocated != list(planned):
                self._fail("memory", kind, f"planned {planned}, allocated {allocated}")

    def _check_numbers(self, partition: Partition, found: Results, kind: str) -> None:
        followed = follow_drawn(self.sample, partition.source.graph, found)
        expected = {name: followed.get(name, value) for name, value in self.expected.items()}
        expected = {name: value for name, value in expected.items() if value is not None}
        problems = find_differences(self.sample, found, expected)
        if problems:
            self.noise = self.noise or measure_noise(self.sample, self.expected)
            problems = find_differences(self.sample, found, expected, self.noise)
        if not problems:
            return
        message = "\n".join(problems.values())
        right, results = judge(self.sample, partition.source.graph, found, problems)
        if not right:
            self._fail("numbers", kind, message)
            return
        self.outcome.disputes.append(
            f"{self.outcome.workers} workers, {kind} plan: they agree with {right}\n{message[:LONGEST_MESSAGE]}"
        )
        # One device is wrong in each step; the judge computes only the first.
        kinds = {name.rsplit(",", 1)[0] for name in problems}
        kept = {name: value for name, value in self.expected.items() if name.rsplit(",", 1)[0] not in kinds}
        self.expected = kept | {name: value for name, value in results.items() if name.rsplit(",", 1)[0] in kinds}
        self.noise = None

    def _fail(self, what: str, kind: str, message: str) -> None:
        text = f"{self.outcome.workers} workers, {kind} plan: {what}\n{message[:LONGEST_MESSAGE]}"
        self.outcome.problems.append(text)


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def try_sample(
    sample: FuzzSample, workers: int, seed: int, randoms: int = 3, ready: Callable[[], None] = lambda: None
) -> FuzzResult:
    """Run a sample under several plans, on fewer workers if it is too small. Call `ready` after the run on one device."""
    started = time.process_time()
    trial = Trial(sample, workers)
    ready()
    default = trial.check("default", {}, thorough=True)
    while default is None and trial.outcome.workers > 2 and not trial.outcome.problems:
        trial.outcome.workers = max(2, trial.outcome.workers // 2)
        default = trial.check("default", {}, thorough=True)
    if default is not None:
        trial.task = replace(default.task, problem=default.searched.problem, settings=trial.partition({}).settings)
        for number, (kind, asked) in enumerate(list_plans(default, seed, randoms)):
            trial.check(kind, asked, thorough=(seed + number) % 6 == 0)
    mx.nd.waitall()
    trial.outcome.seconds = time.process_time() - started
    return trial.outcome
