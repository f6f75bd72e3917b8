"""What users give to Tofu's functions, read and checked before anything is done with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.module.executor_group import DataParallelExecutorGroup

from tofu.errors import DeviceError, PlanError, ShapeError, TofuError, UnsupportedError, raise_together, suggest
from tofu.mxnet.frontend.read_symbol import check_shapes, list_inputs
from tofu.plan import Plan
from tofu.planning.find import Settings
from tofu.planning.fitting import read_bytes
from tofu.reading import MOST_WORKERS, read_text, show
from tofu.search.algorithms import DEFAULT_ALGORITHM, find_algorithm
from tofu.search.solve import DEFAULT_SEARCH_SECONDS, check_seconds
from tofu.search.topology import read_topology

GRAD_REQS = ("write", "add", "null")
UNDESCRIBED = ("error", "replicate")
PLAN_FORMS = "a tofu.Plan, the text that its to_json() gives, or the path of a file with that text"


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def count_workers(ngpus: Any, contexts: Sequence[Any] | None, plan: Plan | None) -> int:
    """The number of workers, from whichever of the three is given. Raises DeviceError where there is none, or they differ."""
    if ngpus is not None and not _is_whole_number(ngpus):
        raise DeviceError(f"ngpus must be a whole number of devices, not {show(ngpus)}.")
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
            "The numbers of workers differ: " + ", ".join(f"{name} says {count}" for name, count in given.items()) + "."
        )
    return next(iter(given.values()))


def read_settings(
    ngpus: Any,
    contexts: Sequence[Any] | None = None,
    *,
    plan: Any = None,
    hints: Any = None,
    for_training: bool = True,
    undescribed: Any = "error",
    cache: bool = True,
    algorithm: str = DEFAULT_ALGORITHM,
    search_seconds: float = DEFAULT_SEARCH_SECONDS,
    topology: Any = None,
    memory_limit: Any = None,
) -> Settings:
    """The arguments of `tofu.partition`, checked. Raises the TofuError of the first that is wrong or contradicts another."""
    plan = read_plan(plan)
    check_options(hints, undescribed)
    check_switches(for_training=for_training, cache=cache)
    workers = count_workers(ngpus, contexts, plan)
    find_algorithm(algorithm)
    check_seconds(search_seconds)
    searching = {
        "algorithm": algorithm != DEFAULT_ALGORITHM,
        "search_seconds": search_seconds != DEFAULT_SEARCH_SECONDS,
        "topology": topology is not None,
    }
    if plan is not None and any(searching.values()):
        given = " and ".join(f"{name}=" for name, is_given in searching.items() if is_given)
        raise PlanError(
            f"plan= is applied as it is, and {given} would have another one searched. Leave one of them out."
        )
    settings = Settings(
        workers,
        hints,
        plan,
        for_training=for_training,
        undescribed=undescribed,
        cache=cache,
        algorithm=algorithm,
        search_seconds=search_seconds,
        topology=read_topology(topology),
        memory_limit=None if memory_limit is None else read_bytes(memory_limit),
    )
    settings.check()
    return settings


def read_plan(plan: Any) -> Plan | None:
    """A plan, given as one, as its JSON, or as the path of a file with its JSON."""
    if plan is None or isinstance(plan, Plan):
        return plan
    if isinstance(plan, str) and plan.lstrip().startswith("{"):
        return Plan.from_json(plan)
    if not isinstance(plan, (str, Path)):
        raise PlanError(f"plan= takes {PLAN_FORMS}; it was given {_describe(plan)}.")
    try:
        text = read_text(plan)
    except (OSError, ValueError) as error:
        raise PlanError(f"plan= takes {PLAN_FORMS}, and no such file can be read: {error}.") from error
    try:
        return Plan.from_json(text)
    except PlanError as error:
        raise PlanError(f"{plan}: {error}") from error


def check_options(hints: Any, undescribed: Any) -> None:
    """Raise an error for hints that are no mapping, and for an unknown treatment of operators without a description."""
    if hints is not None and not isinstance(hints, Mapping):
        raise PlanError(
            f"hints= maps names to dimensions or axes, for example hints={{'fc1_weight': 0}}; it was given {_describe(hints)}."
        )
    unnamed = [show(name) for name in hints or () if not isinstance(name, str)]
    raise_together(
        PlanError, "hints= maps the names of tensors and operators, which are texts. These are none:", unnamed
    )
    if undescribed not in UNDESCRIBED:
        raise UnsupportedError(f"undescribed= is one of {', '.join(map(repr, UNDESCRIBED))}, not {show(undescribed)}.")


def check_switches(**given: Any) -> None:
    """Raise PlanError for what is neither True nor False."""
    wrong = [f"{name}={show(value)}" for name, value in given.items() if not isinstance(value, (bool, np.bool_))]
    raise_together(PlanError, "These are either True or False:", wrong)


def check_contexts(contexts: Any) -> tuple[Any, ...] | None:
    """The contexts given, each an `mx.Context`."""
    if contexts is None:
        return None
    example = "Write contexts=[mx.cpu(0), mx.cpu(1)], one for each worker."
    if isinstance(contexts, (str, mx.Context)) or not isinstance(contexts, Sequence):
        raise DeviceError(f"contexts= takes a list of MXNet contexts, not {_describe(contexts)}. {example}")
    wrong = [_describe(context) for context in contexts if not isinstance(context, mx.Context)]
    if wrong:
        raise DeviceError(f"contexts= takes MXNet contexts, not {', '.join(wrong)}. {example}")
    return tuple(contexts)


def read_shapes(symbol: Any, shapes: Mapping[str, Any], options: Collection[str] = ()) -> dict[str, tuple[int, ...]]:
    """Input name -> shape, as tuples of whole numbers. `options` are the names that the caller knows otherwise.

    Raises ShapeError for names that are neither, and for what is no shape.
    """
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    unknown = [
        f"{n}={show(shape)}{suggest(n, [*names, *options], '=')}" for n, shape in shapes.items() if n not in names
    ]
    choice = f", nor are there such options ({', '.join(options)})" if options else ""
    raise_together(ShapeError, f"The model has no such inputs (it has {list_inputs(symbol)}){choice}:", unknown)
    check_shapes(shapes)
    return {name: tuple(int(extent) for extent in shape) for name, shape in shapes.items()}


def check_names_given(what: str, names: Any) -> list[str]:
    """A list of names; one string alone would be read as a list of letters."""
    if isinstance(names, str):
        raise TofuError(f"{what} takes a list of names. Write {what}=[{names!r}].")
    return list(names or ())


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


def _describe(value: Any) -> str:
    shown = show(value)
    return shown if shown.endswith(f"(a {type(value).__name__})") else f"{shown} (a {type(value).__name__})"


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


def arrays_by_name(arrays: Any, names: Sequence[str], what: str, optional: bool = False) -> dict[str, Any]:
    """Arrays in a list or a mapping, by name."""
    if not isinstance(arrays, Mapping):
        if len(arrays) != len(names):
            raise ShapeError(f"{what} has {len(arrays)} arrays, the model needs {len(names)}: {', '.join(names)}.")
        arrays = dict(zip(names, arrays, strict=True))
    if not optional:
        raise_together(ShapeError, f"{what} lacks arrays for:", [name for name in names if name not in arrays])
    return {name: arrays[name] for name in names if name in arrays}


def refuse_sparse(stypes: Mapping[str, str] | None) -> None:
    """Raise UnsupportedError for storage types that are not dense."""
    sparse = [f"{name}: {stype}" for name, stype in (stypes or {}).items() if stype != "default"]
    raise_together(
        UnsupportedError,
        "Sparse storage cannot be partitioned; leave stype out, or use sparse_grad=False. It is asked for:",
        sparse,
    )


def refuse_data_parallel_group(frame: Any) -> None:
    """A Module over several contexts binds the symbol once for each, at a fraction of the batch: two kinds of parallelism at once."""
    group = frame.f_locals.get("self")
    if isinstance(group, DataParallelExecutorGroup) and len(group.contexts) > 1:
        names = ", ".join(map(str, group.contexts))
        raise UnsupportedError(
            f"The Module has {len(group.contexts)} contexts ({names}), and a partitioned symbol spreads itself over its workers. "
            "Give the Module one context, and name the workers' devices in tofu.partition(sym, contexts=[...])."
        )


def refuse_groups(group2ctx: Any) -> None:
    """Raise UnsupportedError where operators are placed by hand."""
    if group2ctx:
        raise UnsupportedError(
            "group2ctx places operators by hand, which a partitioned symbol does itself. Leave it out."
        )
