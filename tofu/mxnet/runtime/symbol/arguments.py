"""What users give to Tofu's functions, read and checked before anything is done with it."""

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
from tofu.mxnet.frontend.storage import has_sparse_storage, list_sparse_gradients, list_storages
from tofu.mxnet.frontend.symbol_text import GROUP_KEY
from tofu.mxnet.settings import MXNET_OPTIONS, MXNetSettings
from tofu.plan import Plan
from tofu.planning.settings import Settings, read_options
from tofu.validation import MOST_WORKERS, show, show_with_type

logger = logging.getLogger("tofu")

GRAD_REQS = ("write", "add", "null")
LISTS_OF_SHAPES = ("data_shapes", "label_shapes", "input_shapes", "shapes", "data_shape", "input_shape", "shape")
# Names that people try -> what to write.
COUNTS_OF_WORKERS = ("workers", "num_workers", "devices", "num_gpus", "gpus")
WRITTEN_OTHERWISE = {
    **dict.fromkeys(LISTS_OF_SHAPES, " (shapes are given by the inputs' names: data=(64, 784))"),
    **dict.fromkeys(COUNTS_OF_WORKERS, " (the number of devices is ngpus=)"),
    **dict.fromkeys(("context", "ctx"), " (devices are named by contexts=[mx.cpu(0), mx.cpu(1)])"),
    **dict.fromkeys(
        ("dtype", "type_dict"), " (types are those of the Variables, or type_dict= where the symbol is bound)"
    ),
    "group2ctx": " (the plan says where everything is computed; leave it out)",
    "ngpus": " (the number of devices is given to tofu.partition(symbol, ngpus=...), or by contexts=)",
}


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def count_workers(ngpus: Any, contexts: Sequence[Any] | None, plan: Plan | None) -> int:
    """The number of workers, from whichever of the three is given. Raises DeviceError where there is none, or they differ."""
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
    given = {name: count for name, count in counts.items() if count is not None}
    if not given:
        raise DeviceError("How many workers? Give ngpus=, contexts= or plan=.")
    if len(set(given.values())) > 1:
        error = PlanError if plan is not None else DeviceError
        raise error(
            "The numbers of workers differ: "
            + ", ".join(f"{name} says {count}" for name, count in given.items())
            + ". Leave one of them out, or make them equal."
        )
    return next(iter(given.values()))


def read_settings(ngpus: Any, contexts: Sequence[Any] | None = None, **given: Any) -> Settings:
    """The options of `tofu.partition` that are given, checked. Raises the TofuError of the first that is wrong or contradicts another."""
    options = read_options(given, MXNET_OPTIONS)
    settings = MXNetSettings(count_workers(ngpus, contexts, options.get("plan")), **options)
    settings.check()
    return settings


def check_workers_of_module(ngpus: Any, context: Any) -> None:
    """Raise DeviceError where a module is not told its workers, in the words of its own arguments."""
    check_contexts(context, "context", " Or leave it out and write ngpus=2.")
    if ngpus is None and context is None:
        raise DeviceError("How many workers? Give ngpus=2, or their devices: context=[mx.cpu(0), mx.cpu(1)].")


def check_contexts(contexts: Any, name: str = "contexts", otherwise: str = "") -> tuple[Any, ...] | None:
    """The contexts given, each an `mx.Context`. `name` is the argument's, `otherwise` another way to say it."""
    if contexts is None:
        return None
    example = f"Write {name}=[mx.cpu(0), mx.cpu(1)], one for each worker.{otherwise}"
    if isinstance(contexts, (str, mx.Context)) or not isinstance(contexts, Sequence):
        raise DeviceError(f"{name}= takes a list of MXNet contexts, not {show_with_type(contexts)}. {example}")
    wrong = [show_with_type(context) for context in contexts if not isinstance(context, mx.Context)]
    if wrong:
        raise DeviceError(f"{name}= takes MXNet contexts, not {', '.join(wrong)}. {example}")
    return tuple(contexts)


def read_shapes(symbol: Any, shapes: Mapping[str, Any], options: Collection[str] = ()) -> dict[str, tuple[int, ...]]:
    """Input name -> shape, as tuples of whole numbers. `options` are the names that the caller knows otherwise.

    Raises ShapeError for names that are neither, and for what is no shape.
    """
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    unknown = [f"{n}={show(shape)}{_advise_name(n, names, options)}" for n, shape in shapes.items() if n not in names]
    choice = f", nor are there such options ({', '.join(options)})" if options else ""
    raise_together(ShapeError, f"The model has no such inputs (it has {list_inputs(symbol)}){choice}:", unknown)
    check_shapes(shapes)
    return {name: tuple(int(extent) for extent in shape) for name, shape in shapes.items()}


def _advise_name(name: str, names: Collection[str], options: Collection[str]) -> str:
    """What to write instead of an argument that there is not."""
    if name not in WRITTEN_OTHERWISE or name in options:
        return suggest(name, [*names, *options], "=")
    return WRITTEN_OTHERWISE["ngpus" if name in COUNTS_OF_WORKERS and "ngpus" not in options else name]


def read_bound_shapes(symbol: Any, given: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Input name -> shape, of the keywords of `simple_bind`. As in MXNet, what is no shape and of no input is passed over, with a warning;
    so is a label that the model does not have, which Module names. Raises ShapeError for what is no shape of an input.
    """
    names = symbol.list_arguments()
    others = [name for name, shape in given.items() if name not in names and not isinstance(shape, (tuple, list))]
    if others:
        logger.warning("simple_bind passes over %s: the model has no such inputs.", ", ".join(others))
    shapes = {
        name: shape
        for name, shape in given.items()
        if name not in others and (name in names or not name.endswith("label"))
    }
    check_shapes({name: shape for name, shape in shapes.items() if name in names})
    return {name: tuple(shape) for name, shape in shapes.items()}


def check_names_given(what: str, names: Any) -> list[str]:
    """A list of names; one string alone would be read as a list of letters."""
    if isinstance(names, str):
        raise TofuError(f"{what} takes a list of names. Write {what}=[{names!r}].")
    return list(names or ())


def check_symbol(symbol: Any) -> None:
    """Raise UnsupportedError for what is no symbol, with the way to one."""
    if isinstance(symbol, mx.sym.Symbol):
        return
    if isinstance(symbol, (str, Path)):
        is_json = str(symbol).lstrip().startswith("{")
        way = (
            "mx.sym.load_json(text) makes one of JSON" if is_json else f"mx.sym.load({show(str(symbol))}) reads a file"
        )
    elif isinstance(symbol, mx.gluon.Block):
        way = "A Gluon block is partitioned by tofu.gluon.partition(block, ngpus=...); block(mx.sym.var('data')) is a symbol of it"
    elif isinstance(symbol, mx.mod.BaseModule):
        way = "Partition the symbol before the module is made of it, or take module.symbol"
    elif isinstance(symbol, (mx.nd.NDArray, np.ndarray)):
        way = "An array is a value of a model's input; the model is built of mx.sym.Variable and mx.sym's operators"
    elif isinstance(symbol, (list, tuple)):
        way = "Several outputs become one symbol by mx.sym.Group([...])"
    elif callable(symbol):
        way = "Functions of mx.sym make one when they are called; a training step written for JAX goes to tofu.jax.partition"
    else:
        way = "The model is built of mx.sym.Variable and mx.sym's operators"
    raise UnsupportedError(f"partition needs an mx.sym.Symbol, not {show_with_type(symbol)}. {way}.")


def check_same_workers(symbol: Any, ngpus: Any, contexts: Any) -> None:
    """Raise DeviceError where a symbol was partitioned for other workers than those given as well."""
    own = symbol.contexts
    given = check_contexts(contexts)
    if (ngpus is not None and ngpus != len(own)) or (given is not None and given != own):
        asked = f"ngpus={ngpus}" if given is None else ", ".join(map(str, given))
        raise DeviceError(
            f"The symbol was partitioned for {', '.join(map(str, own))}, and {asked} is asked for. Leave the latter out, "
            "or give the model as it was before: symbol.whole."
        )


def read_grad_requests(grad_req: Any, names: Sequence[str]) -> dict[str, str]:
    """Name -> "write", "add" or "null", from any of the forms that MXNet takes."""
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
    """Argument -> "write" or "add", of those that have gradients, as `mx.mod.Module` reads `grad_req`: one word is of the parameters that
    are trained and of the inputs that need gradients; a list or a mapping says it by name, and a mapping leaves the others as they are.
    """
    wanted = {*trained, *inputs}
    if isinstance(grad_req, str):
        grad_req = {name: grad_req for name in names if name in wanted}
    elif isinstance(grad_req, Mapping):
        raise_together(
            TofuError,
            "grad_req names arguments that the model does not have:",
            [f"{name}{suggest(name, names)}" for name in grad_req if name not in names],
        )
        grad_req = {**dict.fromkeys((name for name in names if name in wanted), "write"), **grad_req}
    requests = read_grad_requests(grad_req, names)
    return {name: request for name, request in requests.items() if request != "null"}


def check_described(what: str, shapes: Any) -> None:
    """Raise ArgumentTypeError for what is no list of names with shapes."""
    example = f"Write {what}=[('data', (64, 784))], a name and a shape for each."
    if isinstance(shapes, (str, Mapping)) or not isinstance(shapes, Sequence):
        raise ArgumentTypeError(f"{what} takes a list of names with shapes, not {show_with_type(shapes)}. {example}")
    for shape in shapes:
        is_pair = isinstance(shape, (tuple, list)) and len(shape) >= 2 and isinstance(shape[0], str)
        if not is_pair or not isinstance(shape[1], (tuple, list, np.ndarray)):
            raise ArgumentTypeError(f"{what} takes a list of names with shapes; {show(shape)} is none. {example}")


def check_iterator(method: str, args: Sequence[Any], kwargs: Mapping[str, Any], name: str) -> None:
    """Raise ArgumentTypeError where a loop over batches is given one array."""
    data = args[0] if args else kwargs.get(name)
    if isinstance(data, (mx.nd.NDArray, np.ndarray)):
        raise ArgumentTypeError(
            f"{method} takes an iterator of batches, not {show_with_type(data)}. Write "
            f"module.{method}(mx.io.NDArrayIter(images, labels, batch_size=64), ...)."
        )


def arrays_by_name(arrays: Any, names: Sequence[str], what: str, optional: bool = False) -> dict[str, Any]:
    """Arrays in a list or a mapping, by name."""
    if not isinstance(arrays, Mapping):
        if len(arrays) != len(names):
            raise ShapeError(f"{what} has {len(arrays)} arrays, the model needs {len(names)}: {', '.join(names)}.")
        arrays = dict(zip(names, arrays, strict=True))
    if not optional:
        raise_together(
            ShapeError, f"{what} lacks arrays. Give one by name for:", [name for name in names if name not in arrays]
        )
    return {name: arrays[name] for name in names if name in arrays}


def read_storages(symbol: Any, stypes: Mapping[str, str] | None) -> dict[str, str]:
    """Argument -> "row_sparse" or "csr", of those that are not dense: as the model says, or as `stypes` does in its place."""
    asked = {**list_storages(symbol), **(stypes or {})}
    unknown = [f"{name}: {stype}" for name, stype in asked.items() if stype not in ("default", "row_sparse", "csr")]
    raise_together(ArgumentTypeError, "Storage types are default, row_sparse and csr. Others are asked for:", unknown)
    return {name: stype for name, stype in asked.items() if stype != "default"}


def warn_of_sparse_storage(symbol: Any) -> None:
    """Say that workers compute a model with sparse storage densely."""
    if not has_sparse_storage(symbol):
        return
    arguments = {**dict.fromkeys(sorted(list_sparse_gradients(symbol)), "sparse gradient"), **list_storages(symbol)}
    listed = ", ".join(f"{name} ({stype})" for name, stype in arguments.items())
    logger.warning(
        f"The model has sparse storage{f', {listed}' if listed else ''}. The workers compute with dense storage, which gives the same "
        "numbers in the memory of dense tensors. A lazy optimizer passes over the rows whose gradient is zero."
    )


def warn_of_data_parallel_group(frame: Any) -> None:
    """A Module over several contexts binds the symbol once for each, at a fraction of the batch: two kinds of parallelism at once.

    It is said where the first of them is bound.
    """
    group = frame.f_locals.get("self")
    if isinstance(group, DataParallelExecutorGroup) and group.contexts[1:] and not group.execs:
        count, names = len(group.contexts), ", ".join(map(str, group.contexts))
        logger.warning(
            f"The Module has {count} contexts ({names}): MXNet cuts each batch into {count} parts and binds the model once for each. Every "
            f"one of them is partitioned over all workers, which so hold the parameters {count} times. Give the Module one context, as in "
            "mx.mod.Module(sym, context=mx.cpu()); tofu.partition(sym, contexts=[...]) names the workers' devices."
        )


def place_by_hand(symbol: Any, group2ctx: Mapping[str, Any] | None, ctx: Any) -> dict[str, Any]:
    """Argument or state -> the context of its whole array: that of its group where operators are placed by hand, else `ctx`.

    A warning says that the operators themselves run where the plan says.
    """
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    if not group2ctx:
        return dict.fromkeys(names, ctx)
    logger.warning("group2ctx says where the whole arrays are; the plan says which worker computes what.")
    attributes = symbol.attr_dict()
    return {name: group2ctx.get(attributes.get(name, {}).get(GROUP_KEY, ""), ctx) for name in names}
