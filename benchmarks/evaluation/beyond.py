"""Beyond the paper: Transformers on machines of today, by predicted time.

    python -m benchmarks.evaluation.beyond

The default plan, the plan that keeps as much whole as memory allows, data parallelism and the plan of Megatron-LM, on 8 H100 and on two
hosts of 8, and what `advise` says. Writes docs/evaluation/beyond.md.
"""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.progress import track

from benchmarks.evaluation.__main__ import FOLDER
from tests.models.paper import Model, transformer
from tests.shared.commits import name_tree
from tofu.errors import TofuError
from tofu.mxnet.planning import plan_task
from tofu.plan import format_bytes, format_rate, format_seconds
from tofu.planning.settings import Settings
from tofu.simulation.advise import advise
from tofu.simulation.machine import Machine, read_machine
from tofu.simulation.simulate import simulate_partition

STATES = 2  # Adam
MACHINES = "8xH100", "2x8xH100"
MODELS = {
    "12 layers of 1,024, batch 64": lambda: transformer(12, 1024, 16, 64, heads_first=True),
    "12 layers of 4,096, batch 16": lambda: transformer(12, 4096, 32, 16, heads_first=True),
    "12 layers of 1,024, every second with 16 experts, batch 64": lambda: transformer(
        12, 1024, 16, 64, heads_first=True, experts=16
    ),
}
PLANS = "default", "as whole as fits", "data-parallel", "megatron"


def ask_settings(name: str, workers: int, machine: Machine) -> Settings:
    """The settings of a plan by its name."""
    if name == "as whole as fits":
        return Settings(workers=workers, memory_limit=machine.usable_bytes, cache=False)
    return Settings(workers=workers, algorithm="exact" if name == "default" else name, cache=False)


def describe(model: Model, name: str, workers: int, machine: Machine) -> str:
    """A row of the table."""
    try:
        found = simulate_partition(plan_task(model.read(ask_settings(name, workers, machine))), machine, STATES)
    except TofuError as error:
        return f"| {name} | {str(error).split('. ')[0].split(':')[0]} | | | |"
    memory = f"{format_bytes(max(found.worker_bytes))}{'' if found.fits else ', does not fit'}"
    moved = format_bytes(found.program.remote_bytes)
    return f"| {name} | {format_seconds(found.seconds)} | {format_rate(found.throughput)} | {moved} | {memory} |"


@click.command(help=__doc__)
@click.option("--output", type=click.Path(path_type=Path), default=FOLDER / "beyond.md", show_default=True)
def main(output: Path) -> None:
    lines = [
        "# Transformers on machines of today, simulated",
        "",
        f"Written by `python -m benchmarks.evaluation.beyond` at commit {name_tree()}. Nothing here was run on GPUs: the times are what",
        "the simulator ([docs/simulation.md](../simulation.md)) predicts. Sequences have 512 tokens;",
        "the optimizer keeps two states for each weight.",
    ]
    pairs = [(machine, name) for machine in MACHINES for name in MODELS]
    for machine_name, name in track(pairs, description="simulating", console=Console(stderr=True)):
        machine, model = read_machine(machine_name), MODELS[name]()
        lines += [
            "",
            f"## {name}, on {machine}",
            "",
            "| plan | a step | samples/s | moved | memory |",
            "|---|---|---|---|---|",
        ]
        lines += [describe(model, plan, machine.devices, machine) for plan in PLANS]
        advice = advise(model.read(Settings(workers=2, cache=False)), machine, states=STATES)
        lines += ["", f"`python -m tofu advise`: {advice.verdict}"]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join([*lines, ""]))
    click.echo("\n".join(lines))


if __name__ == "__main__":
    main()
