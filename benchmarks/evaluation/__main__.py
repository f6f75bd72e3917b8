"""The paper's evaluation on a simulated p2.8xlarge, beside what the paper says.

    python -m benchmarks.evaluation
    python -m benchmarks.evaluation --models wresnet-50-4,rnn-6-4k --no-sensitivity --output /tmp/evaluation

Writes Figures 8, 9 and 10, Table 3 and the claims of section 7 as Markdown, CSV and pictures. The machine's numbers come from published
specifications, which `tofu/simulation/machines/p2.8xlarge.json` names; nothing is fitted to the paper's figures. With sensitivity, the
claims are tried again with each of the machine's numbers 30 % up and down.
"""

from __future__ import annotations

import csv
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track

from benchmarks.evaluation.claims import Claim, list_claims
from benchmarks.evaluation.measure import RNNS, WRESNETS, Planned, measure_algorithms, measure_model
from benchmarks.evaluation.pictures import draw_algorithms, draw_throughput
from benchmarks.evaluation.policies import Outcome
from tofu.simulation.machine import Machine, read_machine

FOLDER = Path("docs/evaluation")
NUMBERS = ("arithmetic", "memory", "call", "links", "latency", "host")
SCALES = (1.3, 1 / 1.3)
CONSOLE = Console(stderr=True)


def measure(machine: Machine, models: Sequence[str]) -> tuple[dict[str, dict[str, Outcome]], list[Planned]]:
    """Everything on one machine."""
    measured = {
        name: {one.policy: one for one in measure_model(name, machine)}
        for name in track(models, description=f"{machine}", console=CONSOLE)
    }
    return measured, list(measure_algorithms(machine))


def try_others(machine: Machine, models: Sequence[str]) -> dict[str, list[str]]:
    """Claim -> the changes of the machine under which it holds."""
    found: dict[str, list[str]] = {}
    for name in NUMBERS:
        for factor in SCALES:
            for claim in list_claims(*measure(machine.scale(name, factor), models)):
                if claim.holds:
                    found.setdefault(claim.claim, []).append(f"{name} {'up' if factor > 1 else 'down'}")
    return found


def list_lines(
    machine: Machine,
    measured: Mapping[str, Mapping[str, Outcome]],
    planned: Sequence[Planned],
    claims: Sequence[Claim],
    others: Mapping[str, Sequence[str]],
    commit: str,
) -> list[str]:
    """The page."""
    held = sum(claim.holds for claim in claims)
    lines = [
        "# The paper's evaluation, simulated",
        "",
        f"Written by `python -m benchmarks.evaluation` at commit {commit}. Nothing here was run on GPUs: every number is what the",
        f"simulator ([docs/simulation.md](../simulation.md)) predicts for {machine.name}, whose numbers are published ones:",
        "",
        *(f"- {source}" for source in machine.sources),
        "",
        f"## Claims of section 7: {held} of {len(claims)} hold",
        "",
        "A range holds within 5 points of the paper's.",
        "The last column: on how many of 12 machines, with one number 30 % up or down, it holds." if others else "",
        "",
        "| claim | paper | simulated | holds |" + (" of 12 |" if others else ""),
        "|---|---|---|---|" + ("---|" if others else ""),
    ]
    for claim in claims:
        row = f"| {claim.claim} | {claim.paper} | {claim.ours} | {'yes' if claim.holds else '**no**'} |"
        lines.append(row + (f" {len(others.get(claim.claim, ()))} |" if others else ""))
    missed = [claim for claim in claims if not claim.holds]
    if missed:
        lines += ["", "Where a claim does not hold, most likely:", ""]
        lines += [f"- {claim.claim}: {claim.reason}" for claim in missed]
    lines += ["", "## Figures 8 and 9: throughput", "", "![throughput](throughput.png)", ""]
    policies = list(dict.fromkeys(policy for outcomes in measured.values() for policy in outcomes))
    lines += [f"| model | {' | '.join(policies)} |", f"|---|{'---|' * len(policies)}"]
    for name, outcomes in measured.items():
        cells = [show_outcome(outcomes.get(policy), outcomes["ideal"]) for policy in policies]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "Samples per second of 8 devices, the batch, and the part of the ideal; OOM: out of memory.", ""]
    lines += ["## Figure 10: partition algorithms", "", "![algorithms](algorithms.png)", ""]
    lines += ["| model | algorithm | seconds of a step | communication | GiB of a device |", "|---|---|---|---|---|"]
    lines += [
        f"| {one.model} | {one.algorithm} | {f'{one.seconds:.3f}' if one.seconds else one.refusal} | {one.overhead:.0%} | "
        f"{one.needed_bytes / 2**30:.1f}{'' if one.fits else ' (OOM)'} |"
        for one in planned
    ]
    return [*lines, ""]


def show_outcome(outcome: Outcome | None, ideal: Outcome) -> str:
    """A cell of the table."""
    if outcome is None:
        return ""
    if not outcome.fits:
        return "OOM"
    return f"{outcome.throughput:.3g} at {outcome.batch} ({outcome.throughput / ideal.throughput:.0%})"


def read_tables(folder: Path) -> tuple[dict[str, dict[str, Outcome]], list[Planned]]:
    """What was measured before."""
    measured: dict[str, dict[str, Outcome]] = {}
    with open(folder / "throughput.csv", newline="") as file:
        for row in csv.DictReader(file):
            numbers = float(row["samples_per_second"]), float(row["communication"]), int(row["bytes"])
            measured.setdefault(row["model"], {})[row["policy"]] = Outcome(row["policy"], int(row["batch"]), *numbers)
    with open(folder / "algorithms.csv", newline="") as file:
        planned = [
            Planned(
                row["model"],
                row["algorithm"],
                float(row["seconds"]),
                float(row["seconds_without_communication"]),
                int(row["bytes"]),
                row["fits"] == "True",
            )
            for row in csv.DictReader(file)
        ]
    return measured, planned


def read_commit(folder: Path) -> str:
    """The commit that the page is of."""
    found = re.search(r"at commit (\w+)\.", (folder / "README.md").read_text())
    return found[1] if found else "unknown"


def find_commit() -> str:
    """The commit of the tree."""
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


@click.command(help=__doc__)
@click.option("--models", default=",".join((*WRESNETS, *RNNS)), help="Some of the models, with commas between.")
@click.option("--machine", "machine_name", default="p2.8xlarge", show_default=True, help="Where it would run.")
@click.option("--sensitivity/--no-sensitivity", default=False, show_default=True, help="Try 12 changed machines too.")
@click.option("--again", is_flag=True, help="Write the page and the pictures anew, from the tables that are there.")
@click.option("--output", type=click.Path(path_type=Path), default=FOLDER, show_default=True)
def main(models: str, machine_name: str, sensitivity: bool, again: bool, output: Path) -> None:
    machine, names = read_machine(machine_name), models.split(",")
    measured, planned = read_tables(output) if again else measure(machine, names)
    claims = list(list_claims(measured, planned))
    others = try_others(machine, names) if sensitivity else {}
    commit = read_commit(output) if again else find_commit()
    output.mkdir(parents=True, exist_ok=True)
    lines = list_lines(machine, measured, planned, claims, others, commit)
    (output / "README.md").write_text("\n".join(lines))
    with open(output / "throughput.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("model", "policy", "batch", "samples_per_second", "communication", "bytes"))
        for name, outcomes in measured.items():
            for one in outcomes.values():
                writer.writerow(
                    (name, one.policy, one.batch, f"{one.throughput:.4f}", f"{one.communication:.4f}", one.needed_bytes)
                )
    with open(output / "algorithms.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("model", "algorithm", "seconds", "seconds_without_communication", "bytes", "fits"))
        for one in planned:
            writer.writerow(
                (one.model, one.algorithm, f"{one.seconds:.5f}", f"{one.computing:.5f}", one.needed_bytes, one.fits)
            )
    draw_throughput(measured, output / "throughput.png")
    draw_algorithms(planned, output / "algorithms.png")
    click.echo("\n".join(lines))


if __name__ == "__main__":
    main()
