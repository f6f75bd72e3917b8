"""`tofu.simulate` and `tofu.advise` for MXNet models: the time of a training step, and the best number of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tofu.errors import PlanError, explain_call, list_keyword_arguments
from tofu.mxnet.planning import plan_in_best_form, plan_task, read_trained
from tofu.mxnet.runtime.symbol.arguments import check_symbol, read_settings, read_shapes
from tofu.mxnet.runtime.symbol.partitioned_symbol import PartitionedSymbol
from tofu.pipeline import Task
from tofu.planning.settings import Settings
from tofu.simulation.advise import Advice
from tofu.simulation.advise import advise as find_advice
from tofu.simulation.machine import read_machine
from tofu.simulation.simulate import DEFAULT_STATES, read_states, simulate_one_device, simulate_partition
from tofu.simulation.timeline import Simulation

EXAMPLE = "data=(64, 3, 224, 224)"
ONE_WORKER = 1


@explain_call(f'tofu.simulate(symbol, "8xH100", {EXAMPLE})')
def simulate(symbol: Any, machine: Any, *, states: int = DEFAULT_STATES, **shapes: Sequence[int]) -> Simulation:
    """Predict how long a training step takes on a machine. The step does not run.

    Parameters
    ----------
    symbol
        The model. A partitioned model is simulated on its workers, any other model on one device.
    machine
        A name such as "8xH100", or the path of a file from `python -m tofu calibrate`.
    states
        The number of tensors that the optimizer keeps for each weight: 1 for SGD with momentum, 2 for Adam.
    **shapes
        The shape of each input, by name. A partitioned symbol with a plan needs none.

    Returns
    -------
    Simulation
        The prediction: `.seconds`, `.throughput`, `.fits`. It prints as a summary.

    Raises
    ------
    TofuError
        The machine is unknown, or has fewer devices than the symbol has workers.
    PlanError
        The shapes are missing.

    Examples
    --------
    >>> import mxnet as mx, tofu
    >>> net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=512, name="fc")
    >>> tofu.simulate(tofu.partition(net, ngpus=8, data=(64, 512)), "8xH100").workers
    8
    """
    described_machine, states = read_machine(machine), read_states(states)
    options = list_keyword_arguments(simulate)
    if isinstance(symbol, PartitionedSymbol) and symbol.settings.workers > 1:
        partition = plan_task(_read_task(symbol, shapes, symbol.settings, options)) if shapes else symbol.planned()
        return simulate_partition(partition, described_machine, states)
    task = _read_task(symbol, shapes, read_settings(ONE_WORKER), options)
    return simulate_one_device(task, described_machine, states)


@explain_call(f'tofu.advise(symbol, "8xH100", {EXAMPLE})')
def advise(
    symbol: Any, machine: Any, *, workers: Sequence[int] = (), states: int = DEFAULT_STATES, **shapes: Sequence[int]
) -> Advice:
    """Simulate a model on several numbers of devices, to find the best number. The result prints as a table.

    `workers` lists the numbers to try, by default 2, 4, 8, ... up to all devices of the machine. Other arguments and
    errors are as in `simulate`. If `symbol` has a plan, the plan is ignored.
    """
    settings = symbol.settings.over(ONE_WORKER) if isinstance(symbol, PartitionedSymbol) else read_settings(ONE_WORKER)
    model = _read_model(symbol, shapes, list_keyword_arguments(advise))
    task, make_partition = read_trained(*model, settings), plan_in_best_form(*model)
    return find_advice(task, read_machine(machine), workers, read_states(states), make=make_partition)


def _read_task(symbol: Any, shapes: Any, settings: Settings, options: Sequence[str]) -> Task:
    return read_trained(*_read_model(symbol, shapes, options), settings)


def _read_model(symbol: Any, shapes: Any, options: Sequence[str]) -> tuple[Any, dict[str, tuple[int, ...]]]:
    check_symbol(symbol)
    whole = symbol.whole if isinstance(symbol, PartitionedSymbol) else symbol
    if not shapes:
        raise PlanError(f"A simulation needs the shapes of the model's inputs; pass them by name: {EXAMPLE}.")
    return whole, read_shapes(whole, shapes, ("machine", *options))
