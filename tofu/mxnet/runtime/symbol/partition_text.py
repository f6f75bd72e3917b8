"""Write and read the settings and the plan of a partitioned model (symbol) in the model's JSON.

MXNet ignores the attribute in which they are stored.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import mxnet as mx

from tofu.errors import TofuError
from tofu.mxnet.frontend.refusals import refuse_broken
from tofu.mxnet.frontend.symbol_text import read_model
from tofu.mxnet.runtime.executor.failures import summarise
from tofu.mxnet.runtime.symbol.arguments import read_settings
from tofu.mxnet.runtime.symbol.devices import resolve_contexts
from tofu.mxnet.settings import MXNET_OPTIONS
from tofu.plan import Plan
from tofu.planning.settings import Settings
from tofu.validation import MOST_WORKERS, parse_json, read_integer, read_list, show

ATTRIBUTE = "tofu"
REMEDY = "Use an undamaged copy of the file, or save the symbol again with symbol.save(...)."
KEYS = {name: name for name in MXNET_OPTIONS} | {"plan": "pinned_plan"}  # "plan" is the plan that the search found
load_whole = mx.symbol.symbol.load_json  # MXNet's own function, before files.py replaces it


SavedPartition = tuple[Any, Settings, tuple[Any, ...]]
"""The original model of a partitioned symbol, the settings, and the workers' contexts."""


def add_partition(text: str, settings: Settings, contexts: Sequence[Any], plan: Plan | None) -> str:
    """Add settings, contexts and plan to a model's JSON.

    If `plan` is None, add the plan in `settings.saved`.
    """
    model = json.loads(text)
    plan = plan or settings.saved
    options = {name: getattr(settings, name) for name in MXNET_OPTIONS}
    value = {
        "workers": settings.workers,
        "contexts": [[context.device_type, context.device_id] for context in contexts],
        "plan": None if plan is None else plan.to_json(),
        **{KEYS[n]: None if option is None else MXNET_OPTIONS[n].to_plain(option) for n, option in options.items()},
    }
    value["digest"] = _digest(model, value)
    model.setdefault("attrs", {})[ATTRIBUTE] = ["str", json.dumps(value, sort_keys=True)]
    return json.dumps(model, indent=2)


def read_partition(text: str) -> SavedPartition | None:
    """Return the model, the settings and the contexts in a partitioned model's JSON.

    Return None for an ordinary model. Raise TofuError for damaged text.
    """
    try:
        model = parse_json(text)
    except ValueError as error:
        raise TofuError(f"The symbol cannot be read: {error}. {REMEDY}") from error
    attributes = model.get("attrs", {}) if isinstance(model, dict) else {}
    if not isinstance(attributes, dict) or ATTRIBUTE not in attributes:
        return None
    try:
        return _read_saved(read_model(text), text)
    except (ValueError, mx.base.MXNetError) as error:
        reason = str(error) if isinstance(error, ValueError) else summarise(error)
        raise TofuError(f"The partitioned symbol cannot be read: {reason}. {REMEDY}") from error


def _read_saved(model: dict[str, Any], text: str) -> SavedPartition:
    typed_text = model["attrs"][ATTRIBUTE]
    if not isinstance(typed_text, list) or len(typed_text) != 2 or not isinstance(typed_text[1], str):
        raise ValueError(f"its attribute {ATTRIBUTE} is {show(typed_text)}, not a text")
    value = parse_json(typed_text[1])
    if not isinstance(value, dict):
        raise ValueError(f"its attribute {ATTRIBUTE} is {show(value)}, not an object")
    contexts = [_read_context(context) for context in read_list(value.get("contexts"), "contexts", lambda c, _: c)]
    settings = _read_settings(value, contexts)
    whole = load_whole(text)
    refuse_broken(whole)
    if value.get("digest", digest := _digest(model, value)) != digest:
        warnings.warn(
            "The partitioned symbol has changed since it was saved: its digest does not match. If you edited it, delete its "
            '"digest"; otherwise use the original file.',
            stacklevel=5,
        )
    return whole, settings, resolve_contexts(settings.workers, contexts)


def _read_settings(value: Mapping[str, Any], contexts: Sequence[Any]) -> Settings:
    options = {
        name: None if value[KEYS[name]] is None else option.from_plain(value[KEYS[name]])
        for name, option in MXNET_OPTIONS.items()
        if KEYS[name] in value
    }
    settings = read_settings(value.get("workers"), contexts, **options)
    plan = value.get("plan")
    return replace(settings, saved=None if plan is None else MXNET_OPTIONS["plan"].from_plain(plan))


def _read_context(value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 2 or value[0] not in list(mx.Context.devstr2type):
        raise ValueError(f"a context is {show(value)}, not a device and its number")
    return mx.Context(value[0], read_integer(value[1], "the number of a device", most=MOST_WORKERS))


def _digest(model: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    graph = [model.get(name) for name in ("nodes", "arg_nodes", "heads")]
    partition = {name: field for name, field in value.items() if name != "digest"}
    return hashlib.sha256(json.dumps([graph, partition], sort_keys=True).encode()).hexdigest()[:32]
