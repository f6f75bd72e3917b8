"""The paper's evaluation on a simulated p2.8xlarge, beside what the paper says.

    python -m benchmarks.evaluation
    python -m benchmarks.evaluation --models wresnet-50-4,rnn-6-4k --no-sensitivity --output /tmp/evaluation

Writes Figures 8, 9 and 10, Tables 2 and 3 and the claims of section 7 as Markdown, CSV and pictures; section 4.1, Table 1 and Figure 11 as
`operator_study`, `search_table` and `partition_picture` have left them, which `make reproduce` runs first, and why claims do not hold as
`counterfactuals` has, which it runs after, and then this `--again`. The machine's numbers come from
published specifications, which `tofu/simulation/machines/p2.8xlarge.json` names; nothing is fitted to the paper's figures. The claims are
tried again with each of the machine's numbers 30 % up and down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track

from benchmarks.evaluation.claims import list_claims
from benchmarks.evaluation.measure import RNNS, WRESNETS, measure_algorithms, measure_model
from benchmarks.evaluation.page import CSV, Tables, Tried, list_lines, read_tables
from benchmarks.evaluation.pictures import draw_algorithms, draw_throughput
from benchmarks.evaluation.policies import Outcome
from benchmarks.evaluation.tables import write_table
from tests.shared.commits import name_tree, note_commit
from tofu.simulation.machine import Machine, read_machine

FOLDER = Path("docs/evaluation")
NUMBERS = ("arithmetic", "memory", "call", "links", "latency", "host")
SCALES = {"up": 1.3, "down": 1 / 1.3}
CONSOLE = Console(stderr=True)


def measure(machine: Machine, models: Sequence[str], is_sensitive: bool) -> Tables:
    """Everything on a machine, and the claims on those with one number changed."""
    changed = {
        f"{number} {direction}": machine.scale(number, factor)
        for number in NUMBERS
        for direction, factor in SCALES.items()
        if is_sensitive
    }
    machines = [machine, *changed.values()]
    outcomes: list[list[Outcome]] = [[] for _ in machines]
    for name in track(models, description="Figures 8 and 9", console=CONSOLE):
        for own, found in zip(outcomes, measure_model(name, machines), strict=True):
            own += found
    planned = measure_algorithms(machines)
    tables = [Tables(*pair, ()) for pair in zip(outcomes, planned, strict=True)]
    tried = [one for change, own in zip(changed, tables[1:], strict=True) for one in _try(change, own)]
    return Tables(tables[0].outcomes, tables[0].planned, tried)


def _try(change: str, tables: Tables) -> Iterator[Tried]:
    for claim in list_claims(tables.by_model, tables.planned):
        yield Tried(change, claim.claim, claim.ours, claim.holds)


@click.command(help=__doc__)
@click.option("--models", default=",".join((*WRESNETS, *RNNS)), help="Some of the models, with commas between.")
@click.option("--machine", "machine_name", default="p2.8xlarge", show_default=True, help="Where it would run.")
@click.option("--sensitivity/--no-sensitivity", default=True, show_default=True, help="Try 12 changed machines too.")
@click.option("--again", is_flag=True, help="Write the page and the pictures anew, from the tables that are there.")
@click.option("--output", type=click.Path(path_type=Path), default=FOLDER, show_default=True)
def main(models: str, machine_name: str, sensitivity: bool, again: bool, output: Path) -> None:
    machine, tree = read_machine(machine_name), name_tree()
    output.mkdir(parents=True, exist_ok=True)
    if not again:
        found = measure(machine, models.split(","), sensitivity)
        for name, rows in zip(CSV, (found.outcomes, found.planned, found.tried), strict=True):
            write_table(output / name, rows)
        note_commit(output, "Figures 8 to 10", tree)
    tables = read_tables(output)
    lines = list(list_lines(machine, tables, output))
    (output / "README.md").write_text("\n".join([*lines, ""]))
    draw_throughput(tables.by_model, output / "throughput.png")
    draw_algorithms(tables.planned, output / "algorithms.png")
    click.echo("\n".join(lines))


if __name__ == "__main__":
    main()
