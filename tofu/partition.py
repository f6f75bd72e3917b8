"""`tofu.partition`, `tofu.simulate` and `tofu.advise`: look at the model, and ask the engine that it is written for."""

from __future__ import annotations

import sys
from typing import Any

from tofu.engines import JAX, MXNET, Registration, find_engine
from tofu.errors import ArgumentTypeError
from tofu.validation import show_with_type

MISSING: Any = object()


def partition(model: Any = MISSING, *arguments: Any, **options: Any) -> Any:
    """Partition a model over several devices.

    Parameters
    ----------
    model
        One of:

        - an `mx.sym.Symbol`; returns a symbol that binds to all devices: see `tofu.mxnet.partition`
        - a Gluon block, which is changed in place: see `tofu.gluon.partition`
        - a training step for JAX, a function of arrays; returns a function of the same arguments: see
          `tofu.jax.partition`
    *arguments
        The number of devices first. For JAX a tuple of example arguments follows, or their shapes.
    **options
        `workers` is the number of devices for all engines; MXNet users may write `ngpus`. All engines have `plan`,
        `hints`, `replicate`, `memory_limit`, `topology`, `algorithm`, `search_seconds`, `undescribed`, `on_infeasible`
        and `cache`. The help of each engine's function describes these and its own.

    Returns
    -------
    PartitionedSymbol, HybridBlock or PartitionedStep
        The model on several devices. Its plan is `.plan`.

    Raises
    ------
    ArgumentTypeError
        The model is none of these.
    TofuError
        The model cannot be planned as requested.

    Examples
    --------
    >>> symbol = tofu.partition(symbol, ngpus=8)  # doctest: +SKIP
    >>> net = tofu.partition(net, workers=8)  # doctest: +SKIP
    >>> step = tofu.partition(step, 8, (state, batch))  # doctest: +SKIP
    """
    named = [options.pop(name) for name in ("symbol", "block", "step") if name in options]
    model = named[0] if model is MISSING and named else model
    is_decorator = model is MISSING and "workers" in options
    engine = JAX if is_decorator else _find_engine("partition", model, "tofu.partition(step, 4, (state, batch))")
    if engine is MXNET and "workers" in options:
        if arguments or "ngpus" in options:
            raise ArgumentTypeError("The number of devices is passed twice. Pass ngpus= or workers=, not both.")
        options["ngpus"] = options.pop("workers")
    given = () if model is MISSING else (model,)
    return engine.load("partition").partition(*given, *arguments, **options)


def simulate(model: Any = MISSING, *arguments: Any, **options: Any) -> Any:
    """Predict the time of a training step on a machine: `.seconds`, `.throughput`, `.fits`, and where the time is spent.

    Parameters
    ----------
    model
        A result of `tofu.partition`, simulated on its workers, or an argument of it, simulated on one device.
    *arguments
        The machine: the name of one that comes with Tofu ("8xH100"), or the path of a file from `python -m tofu
        calibrate`. A JAX step that is not partitioned needs a tuple of example arguments, or their shapes, before the
        machine.
    **options
        For an MXNet symbol: shapes of the inputs, and `states`, the number of tensors that the optimizer keeps for each
        weight.

    Returns
    -------
    Simulation
        The simulated step. It prints as a summary.

    Raises
    ------
    TofuError
        There is no such machine, or it has fewer devices than the plan has workers.

    Examples
    --------
    >>> tofu.simulate(tofu.partition(symbol, ngpus=8, data=(64, 784)), "8xH100")  # doctest: +SKIP
    >>> tofu.simulate(tofu.partition(step, 8, (state, batch)), "8xH100")  # doctest: +SKIP
    """
    engine = _find_engine("simulate", model, 'tofu.simulate(partitioned_step, "8xH100")')
    return engine.load("simulation").simulate(model, *arguments, **options)


def advise(model: Any = MISSING, *arguments: Any, **options: Any) -> Any:
    """Recommend a number of devices of a machine, and a plan, for training a model.

    Parameters
    ----------
    model
        A result or an argument of `tofu.partition`.
    *arguments
        The machine, as in `tofu.simulate`, after the example arguments of a step.
    **options
        `workers`, the numbers of devices to try; by default the powers of 2 that the machine has. For an MXNet symbol,
        also the options of `tofu.simulate`.

    Returns
    -------
    Advice
        All options, the fastest that fits first. It prints as a table.

    Raises
    ------
    TofuError
        As `tofu.simulate` does.
    """
    engine = _find_engine("advise", model, 'tofu.advise(step, (state, batch), "8xH100")')
    return engine.load("simulation").advise(model, *arguments, **options)


def _find_engine(name: str, model: Any, of_jax: str) -> Registration:
    """Return the engine of a model. Raises ArgumentTypeError if no engine takes it."""
    engine = None if model is MISSING else find_engine(model)
    if engine is None and "mxnet" in sys.modules:
        return MXNET  # its errors explain how to get a symbol
    if engine is None:
        found = "nothing" if model is MISSING else show_with_type(model)
        example = (
            "tofu.partition(symbol, ngpus=4)"
            if name == "partition"
            else f'tofu.{name}(symbol, "8xH100", data=(64, 784))'
        )
        raise ArgumentTypeError(
            f"tofu.{name} takes an mx.sym.Symbol, a Gluon block, or a training step for JAX, a function of arrays, not {found}. "
            f"Write {example} or {of_jax}."
        )
    return engine
