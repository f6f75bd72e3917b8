"""Why claims of section 7 do not hold here, as experiments: what may be the cause is taken away or put in, and the claim is tried again.

    python -m benchmarks.evaluation.counterfactuals
    python -m benchmarks.evaluation.counterfactuals --models rnn-6-4k,rnn-6-8k --output /tmp/evaluation

Each experiment changes one thing: a number of the machine, the rule of a memory planner, or what a way to train does. The same simulator
runs what that changes, and all claims are listed again, the rest as `python -m benchmarks.evaluation` has left it. Writes
docs/evaluation/counterfactuals.csv, a row for each claim that an experiment is about, and for each other one that it turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track

from benchmarks.evaluation.causes import TABLE, Finding, list_experiments
from benchmarks.evaluation.claims import Claim, list_claims
from benchmarks.evaluation.experiments import CHANGES, Change
from benchmarks.evaluation.held_memory import measure_held
from benchmarks.evaluation.measure import (
    FIGURE_10,
    RNNS,
    WRESNETS,
    Planned,
    list_policies,
    measure_algorithm,
    read_model,
)
from benchmarks.evaluation.page import Tables, read_tables
from benchmarks.evaluation.policies import Outcome
from benchmarks.evaluation.programs import Programs
from benchmarks.evaluation.tables import write_table
from tests.shared.commits import name_tree, note_commit
from tofu.program import PlannedProgram, write_program
from tofu.simulation.machine import Machine, read_machine

# Of Figure 10, the plans that claims are about.
COMPARED = {
    "rnn-4-8k": ("allrow-greedy", "spartan", "equalchop", "icml18", "recursive"),
    "wresnet-152-10": ("allrow-greedy", "icml18", "recursive"),
}


def measure_changes(
    machine: Machine, tables: Tables, models: Sequence[str], changes: Sequence[Change]
) -> list[Finding]:
    """All experiments on some of the models, beside what was measured without them."""
    changed: list[dict[str, dict[str, Outcome]]] = [dict(tables.by_model) for _ in changes]
    for name in track(models, description="counterfactuals", console=Console(stderr=True)):
        programs = read_model(name)
        for change, own in zip(changes, changed, strict=True):
            if name in change.models:
                own[name] = {**own[name], **_run(name, machine, programs, change)}
    plans = _measure_plans(machine, tables.planned, changes)
    claims = list(list_claims(tables.by_model, tables.planned))
    return [
        row
        for change, own, planned in zip(changes, changed, plans, strict=True)
        for row in _compare(change, claims, list(list_claims(own, planned)))
    ]


def _run(name: str, machine: Machine, programs: Programs, change: Change) -> dict[str, Outcome]:
    ways = change.swapping, change.placement, change.of_tensorflow
    policies = list_policies(name, change.machine(machine), _change_programs(programs, change), *ways)
    return {policy: run() for policy, run in policies.items() if policy in change.policies}


def _change_programs(programs: Programs, change: Change) -> Programs:
    if change.rereads:
        programs = programs.emit_by(_reread)
    if change.freed is None:
        return programs
    freed = change.freed

    def measure(program: PlannedProgram) -> list[int]:
        return measure_held(program, program.tables.node_worker.tolist(), freed)

    return programs.measure_by(measure)


def _reread(program: PlannedProgram) -> PlannedProgram:
    """The same plan, in which operators share no fetches."""
    graph = program.graph
    shared = (t for t, one in enumerate(graph.tensors) if not one.is_inner and t not in graph.written_in_place)
    choices = replace(program.choices, reread=tuple(shared))
    return write_program(choices)


def _measure_plans(machine: Machine, base: Sequence[Planned], changes: Sequence[Change]) -> list[Sequence[Planned]]:
    """Figure 10 with each change."""
    changed = [{(one.model, one.algorithm): one for one in base} for _ in changes]
    for name, batch in FIGURE_10:
        programs = read_model(name)
        for algorithm in COMPARED[name]:
            for change, own in zip(changes, changed, strict=True):
                if change.plans == name:
                    other = _change_programs(programs, change)
                    own[name, algorithm] = measure_algorithm(other, batch, algorithm, change.machine(machine))
    return [list(own.values()) for own in changed]


def _compare(change: Change, before: Sequence[Claim], after: Sequence[Claim]) -> Iterator[Finding]:
    """What an experiment says of the claims that it is about and that do not hold, and of those that it turns."""
    for old, new in zip(before, after, strict=True):
        is_about = not old.holds and old.claim.startswith(change.claims)
        if is_about or old.holds != new.holds:
            yield Finding(change.name, old.claim, old.ours, new.ours, old.holds, new.holds, is_about)


@click.command(help=__doc__)
@click.option("--models", default=",".join((*WRESNETS, *RNNS)), help="Some of the models, with commas between.")
@click.option("--machine", "machine_name", default="p2.8xlarge", show_default=True, help="Where it would run.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("docs/evaluation"), show_default=True)
def main(models: str, machine_name: str, output: Path) -> None:
    tree = name_tree()
    rows = measure_changes(read_machine(machine_name), read_tables(output), models.split(","), CHANGES)
    write_table(output / TABLE, rows)
    note_commit(output, "Counterfactuals", tree)
    click.echo("\n".join(list_experiments(rows)))


if __name__ == "__main__":
    main()
