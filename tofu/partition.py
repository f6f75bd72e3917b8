"""`tofu.partition`, `tofu.simulate` and `tofu.advise`, which call the engine for the model: MXNet or JAX."""

from __future__ import annotations

import sys
from typing import Any

from tofu.engines import JAX, MXNET, Registration, find_engine
from tofu.errors import ArgumentTypeError
from tofu.validation import show_with_type

MISSING: Any = object()


def partition(model: Any = MISSING, *arguments: Any, **options: Any) -> Any:
    """Partition a model over several devices, so that each device stores and computes a part of the model.

    Parameters
    ----------
    model
        The model to partition:

        - An `mx.sym.Symbol`. The result is a symbol that runs on all devices. See `tofu.mxnet.partition`.
        - A Gluon block. The block is changed in place. See `tofu.gluon.partition`.
        - A training step for JAX, which is a function of arrays. The result is a function of the same arguments. See
          `tofu.jax.partition`.
    *arguments
        The number of devices. For JAX, pass a tuple of example arguments after it: arrays, or their shapes.
    **options
        Options of the function for this kind of model. All three functions have `plan`, `hints`, `replicate`,
        `memory_limit`, `topology`, `algorithm`, `search_seconds`, `undescribed`, `on_infeasible` and `cache`. The
        number of devices can also be passed as `workers` or, for MXNet, as `ngpus`.

    Returns
    -------
    PartitionedSymbol, HybridBlock or PartitionedStep
        The model on several devices. The attribute `plan` shows how each operator and tensor is split.

    Raises
    ------
    ArgumentTypeError
        The model has another type.
    TofuError
        The model cannot be split as requested.

    Examples
    --------
    >>> symbol = tofu.partition(symbol, ngpus=8)  # doctest: +SKIP
    >>> net = tofu.partition(net, workers=8)  # doctest: +SKIP
    >>> step = tofu.partition(step, 8, (state, batch))  # doctest: +SKIP
    """
    models_by_keyword = [options.pop(name) for name in ("symbol", "block", "step") if name in options]
    model = models_by_keyword[0] if model is MISSING and models_by_keyword else model
    is_decorator = model is MISSING and "workers" in options
    engine = JAX if is_decorator else _find_engine("partition", model, "tofu.partition(step, 4, (state, batch))")
    if engine is MXNET and "workers" in options:
        if arguments or "ngpus" in options:
            raise ArgumentTypeError("The number of devices is passed twice. Pass ngpus= or workers=, not both.")
        options["ngpus"] = options.pop("workers")
    models = () if model is MISSING else (model,)
    return engine.load("partition").partition(*models, *arguments, **options)


def simulate(model: Any = MISSING, *arguments: Any, **options: Any) -> Any:
    """Predict the time of a training step on a machine.

    Parameters
    ----------
    model
        The model. A partitioned model is simulated on its workers, any other model on one device.
    *arguments
        The machine: a name such as "8xH100", or the path of a file from `python -m tofu calibrate`. A plain JAX step
        needs a tuple of example arguments before the machine.
    **options
        For an MXNet symbol, the shapes of its inputs, and `states`, the number of optimizer tensors for each weight.

    Returns
    -------
    Simulation
        The simulated step, with `seconds`, `throughput`, `fits`, and the time of each task. It prints as a summary.

    Examples
    --------
    >>> tofu.simulate(tofu.partition(symbol, ngpus=8, data=(64, 784)), "8xH100")  # doctest: +SKIP
    >>> tofu.simulate(tofu.partition(step, 8, (state, batch)), "8xH100")  # doctest: +SKIP
    """
    engine = _find_engine("simulate", model, 'tofu.simulate(partitioned_step, "8xH100")')
    return engine.load("simulation").simulate(model, *arguments, **options)


def advise(model: Any = MISSING, *arguments: Any, **options: Any) -> Any:
    """Recommend how many devices of a machine to train on, and a plan for them.

    Parameters
    ----------
    model
        The model, or a result of `tofu.partition`.
    *arguments
        The machine, as in `tofu.simulate`. For a JAX step, pass the example arguments first, then the machine.
    **options
        `workers` lists the numbers of devices to try, by default 2, 4, 8, ... up to all devices. MXNet symbols also
        take the options of `tofu.simulate`.

    Returns
    -------
    Advice
        The simulated plans, printed as a table. Plans that fit into memory come first, sorted by speed.
    """
    engine = _find_engine("advise", model, 'tofu.advise(step, (state, batch), "8xH100")')
    return engine.load("simulation").advise(model, *arguments, **options)


def _find_engine(name: str, model: Any, jax_example: str) -> Registration:
    engine = None if model is MISSING else find_engine(model)
    if engine is None and "mxnet" in sys.modules:
        return MXNET  # its errors explain how to get a symbol
    if engine is None:
        received = "nothing" if model is MISSING else show_with_type(model)
        arguments = "ngpus=4" if name == "partition" else '"8xH100", data=(64, 784)'
        raise ArgumentTypeError(
            f"tofu.{name} takes an mx.sym.Symbol, a Gluon block, or a training step for JAX, a function of arrays, not {received}. "
            f"Write tofu.{name}(symbol, {arguments}) or {jax_example}."
        )
    return engine
