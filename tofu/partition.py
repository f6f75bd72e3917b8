"""`tofu.partition`: look at the model, and partition it with the engine that it is written for."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from tofu.errors import ArgumentTypeError
from tofu.reading import show_with_type

ENGINES = (
    ("mxnet.gluon", "tofu.mxnet.gluon.block"),
    ("mxnet", "tofu.mxnet.runtime.partition"),
)
"""The package of a model's class -> the module whose `partition` takes it. Any other function is a step for JAX."""
MISSING: Any = object()


def partition(model: Any = MISSING, *arguments: Any, **options: Any) -> Any:
    """Partition a model over several devices.

    Parameters
    ----------
    model
        One of:

        - an `mx.sym.Symbol`, which becomes a symbol that binds to all devices: `tofu.mxnet.partition`
        - a Gluon block, which is changed in place: `tofu.gluon.partition`
        - a training step for JAX, a function of arrays, which becomes a function of the same arguments: `tofu.jax.partition`
    *arguments
        The number of devices first. For JAX a tuple of example arguments follows, or their shapes.
    **options
        `workers` is the number of devices for all engines; MXNet users may write `ngpus`. All engines have `plan`, `hints`, `replicate`,
        `memory_limit`, `topology`, `algorithm`, `search_seconds`, `undescribed`, `on_infeasible` and `cache`. The help of each engine's
        function describes them, and its own.

    Returns
    -------
    PartitionedSymbol, HybridBlock or PartitionedStep
        What stands for the model on several devices. It has a `plan`.

    Raises
    ------
    ArgumentTypeError
        The model is none of these.
    TofuError
        The model cannot be planned as it is asked for.

    Examples
    --------
    >>> symbol = tofu.partition(symbol, ngpus=8)  # doctest: +SKIP
    >>> net = tofu.partition(net, workers=8)  # doctest: +SKIP
    >>> step = tofu.partition(step, 8, (state, batch))  # doctest: +SKIP
    """
    named = [options.pop(name) for name in ("symbol", "block", "step") if name in options]
    model = named[0] if model is MISSING and named else model
    is_decorator = model is MISSING and "workers" in options
    place = "tofu.jax" if is_decorator else find_engine(model)
    if place is None and "mxnet" in sys.modules:
        place = "tofu.mxnet.runtime.partition"  # it says how each thing becomes a symbol
    if place is None:
        found = "nothing" if model is MISSING else show_with_type(model)
        raise ArgumentTypeError(
            f"tofu.partition takes an mx.sym.Symbol, a Gluon block, or a training step for JAX, a function of arrays, not {found}. "
            "Write tofu.partition(symbol, ngpus=4) or tofu.partition(step, 4, (state, batch))."
        )
    if place != "tofu.jax" and "workers" in options:
        if arguments or "ngpus" in options:
            raise ArgumentTypeError("The number of devices is given twice. Give ngpus= or workers=, not both.")
        options["ngpus"] = options.pop("workers")
    given = () if model is MISSING else (model,)
    return import_module(place).partition(*given, *arguments, **options)


def find_engine(model: Any) -> str | None:
    """Return the module whose `partition` takes a model; None if none does. No framework is imported."""
    for each in (*type(model).__mro__, model):
        module = getattr(each, "__module__", None) or ""
        for package, place in ENGINES:
            if module == package or module.startswith(f"{package}."):
                return place
    symbols = getattr(sys.modules.get("mxnet"), "symbol", None)
    if symbols is not None and getattr(symbols, getattr(model, "__name__", ""), None) is model:
        return "tofu.mxnet.runtime.partition"  # such as mx.sym.FullyConnected, which has another module
    return "tofu.jax" if callable(model) and model is not MISSING else None
