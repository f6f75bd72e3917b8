"""Checks of the arguments that users pass to Tofu's functions for MXNet."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.module.executor_group import DataParallelExecutorGroup

from tofu.errors import (
    ArgumentTypeError,
    DeviceError,
    PlanError,
    ShapeError,
    TofuError,
    UnsupportedError,
    raise_together,
    suggest,
)
from tofu.mxnet.frontend.inference import check_shapes, list_inputs
from tofu.mxnet.frontend.sparse_gradients import list_sparse_gradients
from tofu.mxnet.frontend.storage import has_sparse_storage, list_storages
from tofu.mxnet.frontend.symbol_text import GROUP_KEY
from tofu.mxnet.settings import MXNET_OPTIONS, MXNetSettings
from tofu.plan import Plan
from tofu.planning.settings import Settings, read_options
from tofu.simulation.machine import find_interconnect
from tofu.validation import MOST_WORKERS, show, show_with_type

logger = logging.getLogger("tofu")

GRAD_REQS = ("write", "add", "null")
LISTS_OF_SHAPES = ("data_shapes", "label_shapes", "input_shapes", "shapes", "data_shape", "input_shape", "shape")
COUNTS_OF_WORKERS = ("workers", "num_workers", "devices", "num_gpus", "gpus")
ADVICE_BY_WRONG_NAME = {
    **dict.fromkeys(LISTS_OF_SHAPES, " (shapes are passed by the inputs' names: data=(64, 784))"),
    **dict.fromkeys(COUNTS_OF_WORKERS, " (the number of devices is ngpus=)"),
    **dict.fromkeys(("context", "ctx"), " (devices are named by contexts=[mx.cpu(0), mx.cpu(1)])"),
    **dict.fromkeys(("dtype", "type_dict"), " (set types in the Variables, or by type_dict= when the symbol is bound)"),
    "group2ctx": " (the plan decides where everything is computed; leave it out)",
    "ngpus": " (pass the number of devices to tofu.partition(symbol, ngpus=...), or use contexts=)",
}
"""Wrong name of an argument -> advice for the error message."""


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def count_workers(ngpus: Any, contexts: Sequence[Any] | None, plan: Plan | None) -> int:
    """Return the number of workers. Raise DeviceError or PlanError for contradictory or missing arguments."""
    if ngpus is not None and not _is_whole_number(ngpus):
        raise DeviceError(
            f"ngpus must be a whole number of devices, not {show(ngpus)}. Write ngpus=2, or name the devices: "
            "contexts=[mx.cpu(0), mx.cpu(1)]."
        )
    if ngpus is not None and ngpus < 1:
        raise DeviceError(
            f"ngpus is {show(ngpus)}; a model needs at least 1 worker. Use ngpus=1 for the model as it is."
        )
    if ngpus is not None and ngpus > MOST_WORKERS:
        raise DeviceError(f"ngpus is {show(ngpus)}; at most {MOST_WORKERS} workers can be planned for.")
    counts = {
        "ngpus": None if ngpus is None else int(ngpus),
        "contexts": None if contexts is None else len(contexts),
        "plan": None if plan is None else plan.workers,
    }
    passed_counts = {name: count for name, count in counts.items() if count is not None}
    if not passed_counts:
        raise DeviceError("How many workers? Pass workers= (or ngpus=), contexts= or plan=.")
    if len(set(passed_counts.values())) > 1:
        error = PlanError if plan is not None else DeviceError
        raise error(
            "The numbers of workers differ: "
            + ", ".join(f"{name} says {count}" for name, count in passed_counts.items())
            + ". Leave one of them out, or make them equal."
        )
    return next(iter(passed_counts.values()))


def read_settings(ngpus: Any, contexts: Sequence[Any] | None = None, **options: Any) -> Settings:
    """Check the options of `tofu.partition`, and return them as settings."""
    topology = options.pop("topology", None)
    checked = read_options(options, MXNET_OPTIONS)
    workers = count_workers(ngpus, contexts, checked.get("plan"))
    checked |= read_options({"topology": find_interconnect(topology, workers)})
    settings = MXNetSettings(workers, **checked)
    settings.check()
    return settings


def check_workers_of_module(ngpus: Any, context: Any) -> None:
    """Raise DeviceError unless `ngpus` or a list of MXNet contexts was passed."""
    check_contexts(context, "context", " Or leave it out and write ngpus=2.")
    if ngpus is None and context is None:
        raise DeviceError("How many workers? Give ngpus=2, or their devices: context=[mx.cpu(0), mx.cpu(1)].")


def check_contexts(contexts: Any, argument: str = "contexts", advice: str = "") -> tuple[Any, ...] | None:
    """Return `contexts` as a tuple. Raise DeviceError for anything but MXNet contexts or None.

    `argument` and `advice` appear in the error message.
    """
    if contexts is None:
        return None
    example = f"Write {argument}=[mx.cpu(0), mx.cpu(1)], one for each worker.{advice}"
    if isinstance(contexts, (str, mx.Context)) or not isinstance(contexts, Sequence):
        raise DeviceError(f"{argument}= takes a list of MXNet contexts, not {show_with_type(contexts)}. {example}")
    wrong = [show_with_type(context) for context in contexts if not isinstance(context, mx.Context)]
    if wrong:
        raise DeviceError(f"{argument}= takes MXNet contexts, not {', '.join(wrong)}. {example}")
    return tuple(contexts)


def read_shapes(symbol: Any, shapes: Mapping[str, Any], options: Collection[str] = ()) -> dict[str, tuple[int, ...]]:
    """Return the shape of each input as a tuple of integers, by name.

    Raise ShapeError for invalid shapes and unknown names. The message lists the names of all options (`options`).
    """
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    unknown = [f"{n}={show(shape)}{_advise_name(n, names, options)}" for n, shape in shapes.items() if n not in names]
    choice = f", and these are no options ({', '.join(options)})" if options else ""
    raise_together(ShapeError, f"The model has no such inputs (it has {list_inputs(symbol)}){choice}:", unknown)
    check_shapes(shapes)
    return {name: tuple(int(extent) for extent in shape) for name, shape in shapes.items()}


def _advise_name(name: str, names: Collection[str], options: Collection[str]) -> str:
    if name not in ADVICE_BY_WRONG_NAME or name in options:
        return suggest(name, [*names, *options], "=")
    return ADVICE_BY_WRONG_NAME["ngpus" if name in COUNTS_OF_WORKERS and "ngpus" not in options else name]


def read_bound_shapes(symbol: Any, keywords: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the input shapes among the arguments of `simple_bind`, which allocates the arrays of a model.

    Ignore labels that the model does not have. Ignore other unknown arguments without a shape, with a warning.
    """
    names = symbol.list_arguments()
    ignored = [name for name, shape in keywords.items() if name not in names and not isinstance(shape, (tuple, list))]
    if ignored:
        logger.warning("simple_bind ignores %s: the model has no such inputs.", ", ".join(ignored))
    shapes = {
        name: shape
        for name, shape in keywords.items()
        if name not in ignored and (name in names or not name.endswith("label"))
    }
    check_shapes({name: shape for name, shape in shapes.items() if name in names})
    return {name: tuple(shape) for name, shape in shapes.items()}


def read_names(argument: str, names: Any) -> list[str]:
    """Return names as a list. Raise TofuError for a single string."""
    if isinstance(names, str):
        raise TofuError(f"{argument} takes a list of names. Write {argument}=[{names!r}].")
    return list(names or ())


def check_symbol(symbol: Any) -> None:
    """Raise UnsupportedError with advice for anything but an MXNet symbol."""
    if isinstance(symbol, mx.sym.Symbol):
        return
    if isinstance(symbol, (str, Path)):
        is_json = str(symbol).lstrip().startswith("{")
        advice = "mx.sym.load_json(text) reads JSON" if is_json else f"mx.sym.load({show(str(symbol))}) reads a file"
    elif isinstance(symbol, mx.gluon.Block):
        advice = "Partition a Gluon block with tofu.gluon.partition(block, ngpus=...), or use its symbol, block(mx.sym.var('data'))"
    elif isinstance(symbol, mx.mod.BaseModule):
        advice = "Partition the symbol before you create the module, or use module.symbol"
    elif isinstance(symbol, (mx.nd.NDArray, np.ndarray)):
        advice = "An array is a value of an input; build the model from mx.sym.Variable and operators of mx.sym"
    elif isinstance(symbol, (list, tuple)):
        advice = "Combine several outputs with mx.sym.Group([...])"
    elif callable(symbol):
        advice = "Call a function of mx.sym to get a symbol; partition a training step of JAX with tofu.jax.partition"
    else:
        advice = "Build the model from mx.sym.Variable and operators of mx.sym"
    raise UnsupportedError(f"partition needs an mx.sym.Symbol, not {show_with_type(symbol)}. {advice}.")


def check_same_workers(symbol: Any, ngpus: Any, contexts: Any) -> None:
    """Raise DeviceError if `ngpus` or `contexts` contradict the devices for which `symbol` was partitioned."""
    contexts = check_contexts(contexts)
    if (ngpus is not None and ngpus != len(symbol.contexts)) or (contexts is not None and contexts != symbol.contexts):
        requested = f"ngpus={ngpus}" if contexts is None else ", ".join(map(str, contexts))
        raise DeviceError(
            f"The symbol was partitioned for {', '.join(map(str, symbol.contexts))}, not for {requested}. Leave that argument out, or "
            "pass the original model, symbol.whole."
        )


def read_grad_requests(grad_req: Any, names: Sequence[str]) -> dict[str, str]:
    """Return "write", "add" or "null" for each argument in `names`.

    `grad_req` is one word for all, a list with a word for each, or a mapping.
    """
    if isinstance(grad_req, str):
        requests = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, Mapping):
        requests = {name: grad_req.get(name, "null") for name in names}
    else:
        if len(grad_req) != len(names):
            raise ShapeError(f"grad_req has {len(grad_req)} entries, the model has {len(names)} arguments.")
        requests = dict(zip(names, grad_req, strict=True))
    wrong = [f"{name}: {request!r}" for name, request in requests.items() if request not in GRAD_REQS]
    raise_together(UnsupportedError, f"grad_req must be one of {', '.join(GRAD_REQS)}:", wrong)
    return requests


def read_module_requests(
    grad_req: Any, names: Sequence[str], trained: Sequence[str], inputs: Sequence[str]
) -> dict[str, str]:
    """Return "write" or "add" for each argument that gets a gradient, by name.

    A single word applies to all `trained` parameters and all `inputs`. In a mapping, "write" is their default.
    """
    differentiated = [name for name in names if name in {*trained, *inputs}]
    if isinstance(grad_req, str):
        grad_req = dict.fromkeys(differentiated, grad_req)
    elif isinstance(grad_req, Mapping):
        raise_together(
            TofuError,
            "grad_req names arguments that the model does not have:",
            [f"{name}{suggest(name, names)}" for name in grad_req if name not in names],
        )
        grad_req = {**dict.fromkeys(differentiated, "write"), **grad_req}
    requests = read_grad_requests(grad_req, names)
    return {name: request for name, request in requests.items() if request != "null"}


def check_descriptions(argument: str, descriptions: Any) -> None:
    """Raise ArgumentTypeError unless `descriptions` is a list of names with shapes."""
    example = f"Write {argument}=[('data', (64, 784))], a name and a shape for each."
    if isinstance(descriptions, (str, Mapping)) or not isinstance(descriptions, Sequence):
        raise ArgumentTypeError(
            f"{argument} takes a list of names with shapes, not {show_with_type(descriptions)}. {example}"
        )
    for description in descriptions:
        is_named = isinstance(description, (tuple, list)) and len(description) >= 2 and isinstance(description[0], str)
        if not is_named or not isinstance(description[1], (tuple, list, np.ndarray)):
            raise ArgumentTypeError(
                f"{argument} takes a list of names with shapes; {show(description)} is none. {example}"
            )


def check_iterator(method: str, args: Sequence[Any], kwargs: Mapping[str, Any], name: str) -> None:
    """Raise ArgumentTypeError if a method such as `fit` gets an array instead of an iterator."""
    data = args[0] if args else kwargs.get(name)
    if isinstance(data, (mx.nd.NDArray, np.ndarray)):
        raise ArgumentTypeError(
            f"{method} takes an iterator of batches, not {show_with_type(data)}. Write "
            f"module.{method}(mx.io.NDArrayIter(images, labels, batch_size=64), ...)."
        )


def arrays_by_name(arrays: Any, names: Sequence[str], argument: str, optional: bool = False) -> dict[str, Any]:
    """Return arrays by name. `arrays` is a mapping, or a list in the order of `names`.

    Raise ShapeError for missing arrays, unless `optional` is True.
    """
    if not isinstance(arrays, Mapping):
        if len(arrays) != len(names):
            raise ShapeError(f"{argument} has {len(arrays)} arrays, the model needs {len(names)}: {', '.join(names)}.")
        arrays = dict(zip(names, arrays, strict=True))
    if not optional:
        missing = [name for name in names if name not in arrays]
        raise_together(ShapeError, f"{argument} lacks arrays. Pass one by name for:", missing)
    return {name: arrays[name] for name in names if name in arrays}


def read_storages(symbol: Any, stypes: Mapping[str, str] | None) -> dict[str, str]:
    """Return the storage of each sparse argument, such as {"weight": "row_sparse", "data": "csr"}.

    Types in `stypes` replace the model's types.
    """
    storages = {**list_storages(symbol), **(stypes or {})}
    unknown = [f"{name}: {stype}" for name, stype in storages.items() if stype not in ("default", "row_sparse", "csr")]
    raise_together(ArgumentTypeError, "Storage types are default, row_sparse and csr. Unknown ones:", unknown)
    return {name: stype for name, stype in storages.items() if stype != "default"}


def warn_of_sparse_storage(symbol: Any) -> None:
    """Log a warning if the model has sparse arrays, because workers store dense arrays."""
    if not has_sparse_storage(symbol):
        return
    arguments = {**dict.fromkeys(sorted(list_sparse_gradients(symbol)), "sparse gradient"), **list_storages(symbol)}
    listed = ", ".join(f"{name} ({stype})" for name, stype in arguments.items())
    logger.warning(
        f"The model has sparse storage{f', {listed}' if listed else ''}. The workers compute with dense storage, which gives the same "
        "numbers and needs the memory of dense tensors. A lazy optimizer skips the rows whose gradient is zero."
    )


def warn_of_data_parallel_group(frame: Any) -> None:
    """Log a warning if an `mx.mod.Module` binds a partitioned symbol to several contexts.

    `frame` is the Python frame of the caller.
    """
    group = frame.f_locals.get("self")
    if isinstance(group, DataParallelExecutorGroup) and group.contexts[1:] and not group.execs:
        count, names = len(group.contexts), ", ".join(map(str, group.contexts))
        logger.warning(
            f"The Module has {count} contexts ({names}): MXNet binds the model {count} times, for a part of the batch each. Each copy is "
            f"partitioned over all workers, which then hold the parameters {count} times. Use one context, as in mx.mod.Module(sym, "
            "context=mx.cpu()); tofu.partition(sym, contexts=[...]) names the workers' devices."
        )


def find_array_contexts(symbol: Any, group2ctx: Mapping[str, Any] | None, ctx: Any) -> dict[str, Any]:
    """Return the context (device) of each argument and state, by name.

    Variables with the attribute `ctx_group` are on `group2ctx[ctx_group]`. All others are on `ctx`.
    """
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    if not group2ctx:
        return dict.fromkeys(names, ctx)
    logger.warning("group2ctx places the whole arrays only; the plan decides which worker computes what.")
    attributes = symbol.attr_dict()
    return {name: group2ctx.get(attributes.get(name, {}).get(GROUP_KEY, ""), ctx) for name in names}
