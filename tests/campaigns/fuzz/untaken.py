"""Strategies that plans were offered and that none of them took: their models again, under plans that take them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from tests.campaigns.fuzz.campaign import Record, find_commit, record_outcome
from tests.campaigns.fuzz.models import make_sample
from tests.campaigns.fuzz.tally import count_strategies
from tests.campaigns.fuzz.trial import Trial
from tofu.pipeline import Partition

MOST_MODELS = 3  # of a strategy


def run_untaken(records: Sequence[Record]) -> Iterator[Record]:
    """A record for each model that is run again, until a plan has taken each strategy or no more models offered it."""
    wanted = {one for one, count in count_strategies(records).items() if not count}
    tried = dict.fromkeys(wanted, 0)
    for record in records:
        offered = {(op, axis) for op, axis, _ in record.taken} & wanted
        if not offered or all(tried[one] >= MOST_MODELS for one in offered):
            continue
        # Two workers share any axis of two cells; parts come of a step along a reduction, and take the axis at another step.
        has_parts = any(op.startswith("_tofu_") for op, _ in offered)
        trial = Trial(make_sample(record.seed, record.kind), 4 if has_parts else 2)
        default = trial.check("default", {})
        if default is None:
            continue
        trial.task = replace(default.task, problem=default.searched.problem, settings=trial.partition({}).settings)
        for hints in _list_hints(default, offered):
            trial.check("strategy", {"hints": hints})
        for one in offered:
            tried[one] += 1
        wanted -= {one for one, count in trial.outcome.taken.items() if count}
        yield record_outcome(Record(find_commit(), record.focus, record.seed, record.kind), trial.outcome)


def _list_hints(partition: Partition, offered: set[tuple[str, str]]) -> Iterator[dict[str, list[str]]]:
    """Choices of an operator for each step: the axis alone, or for parts, which stay where a reduction is split, after another one.

    The operators are those that are planned, and those of the model that have parts there and are whole again under the plan.
    """
    problem, model = partition.searched.problem, partition.graph
    planned = zip(problem.graph.operators, problem.accesses, strict=True)
    for operator, access in chain(planned, zip(model.operators, partition.task.stock, strict=True)):
        for axis in access.axes:
            if (operator.op, axis) not in offered:
                continue
            if len(partition.plan.factors) == 1:
                yield {operator.name: [axis]}
            else:
                yield from ({operator.name: [other, axis]} for other in access.axes if other != axis)
