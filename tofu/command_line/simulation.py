"""`python -m tofu simulate`, `advise` and `calibrate`: predict the time of a training step, and recommend devices."""

from __future__ import annotations

import json
from pathlib import Path

import click
from click.core import ParameterSource

from tofu.command_line.planning_options import OUTPUT, SPELLED, check_folder, check_plot, spell_as_options
from tofu.command_line.requests import ModelRequest, takes_model
from tofu.engines import MXNET
from tofu.errors import TofuError
from tofu.host.writing import write_atomically
from tofu.planning.progress import show_progress
from tofu.report.timeline_plot import plot_timeline
from tofu.simulation.machine import Machine, list_known, list_machines, read_machine
from tofu.simulation.simulate import simulate_one_device, simulate_partition


def _read_machine(_context: click.Context, _option: click.Parameter, name_or_file: str | None) -> Machine:
    if name_or_file is None:
        raise TofuError(f"--machine is missing: the machine to simulate, for example --machine 8xH100. {list_known()}")
    return read_machine(name_or_file)


takes_machine = click.option(
    "--machine",
    callback=_read_machine,
    metavar="NAME|FILE",
    help=f"Machine to simulate: {', '.join(list_machines())}, or a file that `python -m tofu calibrate` wrote.",
)
takes_states = click.option(
    "--states",
    "states_per_weight",
    type=click.IntRange(0),
    default=None,
    show_default="1",
    help="MXNet: number of tensors that the optimizer keeps for each weight (1 for momentum, 2 for Adam).",
)


@click.command()
@takes_model()
@takes_machine
@takes_states
@click.option("--trace", type=OUTPUT, help="Write the timeline to this JSON file, for chrome://tracing or Perfetto.")
@click.option("--plot", type=OUTPUT, help="Draw the timeline to this file (.png, .svg).")
def simulate(
    model_request: ModelRequest, machine: Machine, states_per_weight: int | None, trace: Path | None, plot: Path | None
) -> None:
    """Predict the time of a training step on a machine.

    Prints the seconds of a step, samples per second, and what the workers wait for. The simulation goes through the
    program of every worker: each kernel, and each transfer between workers. --workers 1 simulates one device.
    docs/simulation.md explains the simulation and how accurate it is.

    \b
    Examples:
        python -m tofu simulate resnet-symbol.json --shape data:64,3,224,224 --workers 8 --machine 8xH100
        python -m tofu simulate resnet-symbol.json --shape data:64,3,224,224 --workers 8 --machine 8xV100 --trace
        step.json --plot step.png
        python -m tofu simulate train.py:step --workers 8 --machine 8xH100
        python -m tofu calibrate --output here.json
        python -m tofu simulate lenet-symbol.json --shape data:64,1,28,28 --workers 2 --machine here.json
    """  # noqa: D301  click reads the escape
    check_folder("--trace", trace)
    check_plot(plot)
    states_per_weight = model_request.states if states_per_weight is None else states_per_weight
    if model_request.settings.workers == 1:
        simulation = simulate_one_device(model_request.read(), machine, states_per_weight)
    else:
        simulation = simulate_partition(model_request.compile(), machine, states_per_weight)
    click.echo(str(simulation))
    if trace is not None:
        write_atomically(str(trace), simulation.to_trace())
        click.echo(f"The timeline is in {trace}; open it in chrome://tracing or ui.perfetto.dev.")
    if plot is not None:
        plot_timeline(simulation, plot)
        click.echo(f"The plot is in {plot}.")


@click.command()
@takes_model()
@takes_machine
@takes_states
@click.option(
    "--over",
    "worker_counts",
    multiple=True,
    type=click.IntRange(2),
    metavar="K",
    help="Number of workers to try. May be repeated. Default: 2, 4, 8, ... up to the devices of the machine.",
)
@click.option(
    "--save",
    type=OUTPUT,
    help="Write the plan of the fastest way that fits to this file, for tofu.partition(plan=...).",
)
def advise(
    model_request: ModelRequest,
    machine: Machine,
    states_per_weight: int | None,
    worker_counts: tuple[int, ...],
    save: Path | None,
) -> None:
    """Recommend a number of devices and a plan for MODEL.

    Simulates several ways to train on a machine, each on several numbers of devices: the default plan ("everything
    split"), the plan that replicates as much as memory allows ("replicas within memory"), and data parallelism. Also
    simulates one device. Prints a table, the fastest plan that fits first. Recommends fewer devices if more devices
    gain less than 5 %.

    Each time has a range. One end assumes that the machine computes 30 % faster and moves data 30 % slower than its
    file describes. The other end assumes the reverse.

    \b
    Examples:
        python -m tofu advise resnet-symbol.json --shape data:64,3,224,224 --machine 8xH100
        python -m tofu advise lm-symbol.json --shape data:32,512 --machine 8xV100 --states 2 --over 4 --over 8 --save
        plan.json
        python -m tofu advise train.py:step --machine 8xH100
    """  # noqa: D301  click reads the escape
    _refuse_options_that_advise_chooses(model_request)
    check_folder("--save", save)
    with show_progress() as report:
        advice = model_request.advise(
            machine, worker_counts, model_request.states if states_per_weight is None else states_per_weight, report
        )
    click.echo(spell_as_options(str(advice)))
    if save is None:
        return
    if advice.best is None or advice.best.plan is None:
        click.echo(f"There is no plan to save: {save} was not written.")
    else:
        write_atomically(str(save), advice.best.plan.to_json())
        click.echo(f"Its plan is in {save}.")


DECIDED = ("workers", "plan", "topology", "memory_limit")
"""Planning options that `advise` chooses by itself."""
for decided in advise.params:
    if isinstance(decided, click.Option):
        decided.hidden = decided.name in DECIDED


def _refuse_options_that_advise_chooses(model_request: ModelRequest) -> None:
    context = click.get_current_context()
    refused_options = [
        SPELLED[name] for name in DECIDED if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    hints = model_request.settings.hints or {}
    refused_options += [
        f"--hint {name}=.. for single rounds" for name, hint in hints.items() if isinstance(hint, tuple)
    ]
    if refused_options:
        raise TofuError(
            "advise tries several numbers of workers with the machine's links and memory, so it does not take "
            f"{', '.join(refused_options)}. Leave it out. --over 4 tries 4 workers, and `python -m tofu simulate` simulates one plan."
        )


@click.command()
@click.option("--output", "-o", type=OUTPUT, default="machine.json", show_default=True, help="File to write.")
@click.option("--name", default="this machine", show_default=True, help="Name of the machine.")
def calibrate(output: Path, name: str) -> None:
    """Measure this machine for simulations.

    Runs small models with one thread, and measures how the time of each kind of kernel depends on its arithmetic
    and its bytes. This takes a minute, in which nothing else should run. Pass the file to --machine of the commands
    simulate and advise.

    \b
    Example:
        python -m tofu calibrate --output here.json
    """  # noqa: D301  click reads the escape
    check_folder("--output", output)
    click.echo("Measuring kernels, one after the other ...", err=True)
    measured = MXNET.load("calibration.calibrate").calibrate(name)
    write_atomically(str(output), json.dumps(measured, indent=1))
    rates = measured["rates"]
    kinds = len(rates["measured"])
    click.echo(
        f"{output}: {measured['processors']:.2f} processors, {rates['contracted_operations_per_second']['float32'] / 1e9:.0f} GFLOP/s "
        f"in products, {rates['memory_bytes_per_second'] / 1e9:.1f} GB/s of memory, {kinds} kinds of kernels. "
        f"Use it: python -m tofu simulate MODEL --shape ... --machine {output}"
    )
