"""The paper's evaluation (section 7) on a simulated p2.8xlarge, compared with the paper's numbers.

\b
    python -m benchmarks.evaluation
    python -m benchmarks.evaluation --models wresnet-50-4,rnn-6-4k --no-sensitivity --output /tmp/evaluation

Writes Figures 8 to 10, Tables 2 and 3 and the claims of section 7 as Markdown, CSV and pictures. `make reproduce` first
runs `search_table` and `partition_picture`, which write Table 1 and Figure 11. The numbers of the machine are published
specifications (`tofu/simulation/machines/p2.8xlarge.json`), and are not fitted to the paper's figures. The claims are
also checked with each of these numbers increased and decreased by 30 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track

from benchmarks.evaluation.claims import list_claims
from benchmarks.evaluation.measure import RNNS, WRESNETS, measure_algorithms, measure_model
from benchmarks.evaluation.page import CSV, ClaimOnChangedMachine, Tables, list_lines, read_tables
from benchmarks.evaluation.pictures import draw_algorithms, draw_throughput
from benchmarks.evaluation.policies import PolicyOutcome
from benchmarks.evaluation.tables import write_commit, write_table
from tests.shared.campaigns import choose_names
from tests.shared.commits import name_tree
from tofu.simulation.machine import Machine, read_machine

FOLDER = Path("docs/evaluation")
NUMBERS = ("arithmetic", "memory", "call", "links", "latency", "host")
SCALES = {"up": 1.3, "down": 1 / 1.3}


def measure(machine: Machine, models: Sequence[str], is_sensitive: bool) -> Tables:
    changed = {
        f"{number} {direction}": machine.scale(number, factor)
        for number in NUMBERS
        for direction, factor in SCALES.items()
        if is_sensitive
    }
    machines = [machine, *changed.values()]
    outcomes: list[list[PolicyOutcome]] = [[] for _ in machines]
    for name in track(models, description="Figures 8 and 9", console=Console(stderr=True)):
        for own, measured in zip(outcomes, measure_model(name, machines), strict=True):
            own += measured
    tables = [Tables(*pair, ()) for pair in zip(outcomes, measure_algorithms(machines), strict=True)]
    claims = [
        ClaimOnChangedMachine(change, claim.claim, claim.ours, claim.holds)
        for change, own in zip(changed, tables[1:], strict=True)
        for claim in list_claims(own.by_model, own.algorithms)
    ]
    return Tables(tables[0].outcomes, tables[0].algorithms, claims)


@click.command(help=__doc__)
@click.option("--models", help="Names, separated by commas. By default, all.")
@click.option("--machine", "machine_name", default="p2.8xlarge", show_default=True, help="Machine to simulate.")
@click.option(
    "--sensitivity/--no-sensitivity", default=True, show_default=True, help="Also simulate 12 changed machines."
)
@click.option("--again", is_flag=True, help="Only rewrite the page and the pictures, from the tables in the folder.")
@click.option("--output", type=click.Path(path_type=Path), default=FOLDER, show_default=True)
def main(models: str | None, machine_name: str, sensitivity: bool, again: bool, output: Path) -> None:
    machine, commit = read_machine(machine_name), name_tree()
    output.mkdir(parents=True, exist_ok=True)
    if not again:
        measured = measure(machine, choose_names(models, (*WRESNETS, *RNNS)), sensitivity)
        for name, rows in zip(CSV, (measured.outcomes, measured.algorithms, measured.claims), strict=True):
            write_table(output / name, rows)
        write_commit(output, "Figures 8 to 10", commit)
    tables = read_tables(output)
    lines = list(list_lines(machine, tables, output))
    (output / "README.md").write_text("\n".join([*lines, ""]))
    draw_throughput(tables.by_model, output / "throughput.png")
    draw_algorithms(tables.algorithms, output / "algorithms.png")
    click.echo("\n".join(lines))


if __name__ == "__main__":
    main()
