"""Partitioned symbols in files: MXNet's JSON of the original model, with settings and plan in the graph's attributes.

Plain MXNet reads such a file as the model itself. Where Tofu is imported, MXNet's own loaders give the partitioned symbol back,
so that `Module.load` and checkpoints do not fall back to one device.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from glob import escape, glob
from typing import Any

import mxnet as mx

from tofu.errors import TofuError, raise_together
from tofu.mxnet.frontend.refusals import refuse_broken
from tofu.mxnet.frontend.symbol_text import read_model
from tofu.mxnet.runtime.arguments import read_settings
from tofu.mxnet.runtime.devices import resolve_contexts
from tofu.plan import Plan
from tofu.planning.find import Settings
from tofu.reading import MOST_WORKERS, parse_json, read_list, read_string, read_text, read_whole, show

ATTRIBUTE = "tofu"
REMEDY = "Take a copy of the file that is whole, or save the symbol anew with symbol.save(...)."
_load_whole = mx.symbol.symbol.load_json


def add_partition(text: str, symbol: Any) -> str:
    """The model's JSON `text` with the settings and the plan of a partitioned symbol in it."""
    model = json.loads(text)
    settings: Settings = symbol.settings
    plan = symbol.current_plan or settings.saved
    value = {
        "workers": settings.workers,
        "contexts": [[context.device_type, context.device_id] for context in symbol.contexts],
        "hints": None if settings.hints is None else {name: _plain_hint(hint) for name, hint in settings.hints.items()},
        "pinned_plan": None if settings.plan is None else settings.plan.to_json(),
        "plan": None if plan is None else plan.to_json(),
        "for_training": settings.for_training,
        "undescribed": settings.undescribed,
        "cache": settings.cache,
        "algorithm": settings.algorithm,
        "search_seconds": settings.search_seconds,
        "topology": None if settings.topology is None else settings.topology.to_plain(),
        "memory_limit": settings.memory_limit,
    }
    value["digest"] = _digest(model, value)
    model.setdefault("attrs", {})[ATTRIBUTE] = ["str", json.dumps(value, sort_keys=True)]
    return json.dumps(model, indent=2)


def read_partition(text: str) -> Any:
    """The symbol in a JSON text: partitioned if it was saved so. Raises TofuError for a partitioned one that is damaged."""
    try:
        model = parse_json(text)
    except ValueError as error:
        raise TofuError(f"The symbol cannot be read: {error}. {REMEDY}") from error
    attributes = model.get("attrs", {}) if isinstance(model, dict) else {}
    if not isinstance(attributes, dict) or ATTRIBUTE not in attributes:
        return _load_whole(text)
    try:
        return _read_partitioned(read_model(text), text)
    except (ValueError, mx.base.MXNetError) as error:
        reason = str(error) if isinstance(error, ValueError) else _last_line(error)
        raise TofuError(f"The partitioned symbol cannot be read: {reason}. {REMEDY}") from error


def _read_partitioned(model: dict[str, Any], text: str) -> Any:
    from tofu.mxnet.runtime.partitioned_symbol import PartitionedSymbol

    kept = model["attrs"][ATTRIBUTE]
    if not isinstance(kept, list) or len(kept) != 2 or not isinstance(kept[1], str):
        raise ValueError(f"its attribute {ATTRIBUTE} is {show(kept)}, not a text")
    value = parse_json(kept[1])
    if not isinstance(value, dict):
        raise ValueError(f"its attribute {ATTRIBUTE} is {show(value)}, not an object")
    contexts = [_read_context(context) for context in read_list(value.get("contexts"), "contexts", lambda c, _: c)]
    settings = _read_settings(value, contexts)
    whole = _load_whole(text)
    refuse_broken(whole)
    if value.get("digest", digest := _digest(model, value)) != digest:
        warnings.warn(
            "The partitioned symbol is not as it was saved: its digest is that of another one. If you edited it, delete its "
            '"digest"; else take it from where it was saved.',
            stacklevel=4,
        )
    return PartitionedSymbol(whole, settings, resolve_contexts(settings.workers, contexts))


def _read_settings(value: Mapping[str, Any], contexts: Sequence[Any]) -> Settings:
    hints = value.get("hints")
    if isinstance(hints, dict):
        hints = {name: _rich_hint(hint) for name, hint in hints.items()}
    names = ("for_training", "undescribed", "cache", "algorithm", "search_seconds", "topology", "memory_limit")
    settings = read_settings(
        value.get("workers"),
        contexts,
        plan=_read_plan(value, "pinned_plan"),
        hints=hints,
        **{name: value[name] for name in names if name in value},
    )
    return replace(settings, saved=_read_plan(value, "plan"))


def _read_plan(value: Mapping[str, Any], name: str) -> Plan | None:
    text = value.get(name)
    return None if text is None else Plan.from_json(read_string(text, name))


def _read_context(value: Any) -> Any:
    """[device, number] -> a context."""
    if not isinstance(value, list) or len(value) != 2 or value[0] not in list(mx.Context.devstr2type):
        raise ValueError(f"a context is {show(value)}, not a device and its number")
    return mx.Context(value[0], read_whole(value[1], "the number of a device", most=MOST_WORKERS))


def _digest(model: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    """Of the model's nodes and of everything that is saved with them."""
    parts = [model.get(name) for name in ("nodes", "arg_nodes", "heads")]
    kept = {name: part for name, part in value.items() if name != "digest"}
    return hashlib.sha256(json.dumps([parts, kept], sort_keys=True).encode()).hexdigest()[:32]


def _plain_hint(hint: Any) -> Any:
    return ["..." if step is Ellipsis else step for step in hint] if isinstance(hint, (list, tuple)) else hint


def _rich_hint(hint: Any) -> Any:
    return [Ellipsis if step == "..." else step for step in hint] if isinstance(hint, list) else hint


def install_loaders() -> None:
    """Let MXNet's own symbol loaders give partitioned symbols back; other files load as before."""
    for module in (mx.symbol, mx.symbol.symbol):
        module.load_json = _with_partition(module.load_json)
        module.load = _load_file


def _with_partition(load_json: Callable[[str], Any]) -> Callable[[str], Any]:
    @wraps(load_json)
    def load(json_str: str) -> Any:
        return (
            read_partition(json_str)
            if isinstance(json_str, str) and f'"{ATTRIBUTE}"' in json_str
            else _load_whole(json_str)
        )

    return load


def read_symbol(path: str) -> Any:
    """The symbol in a file, partitioned if it was saved so. Raises TofuError for a file that MXNet cannot read as one."""
    try:
        text = read_text(path)
        read_model(text)  # MXNet's own errors name neither the file nor what is wrong
        symbol = mx.sym.load_json(text)
        refuse_broken(symbol)
    except (OSError, ValueError, mx.base.MXNetError) as error:
        reason = str(error) if isinstance(error, (OSError, ValueError)) else _last_line(error)
        raise TofuError(
            f"{path} is not a symbol that MXNet can read ({reason}). Save one with symbol.save(...)."
        ) from error
    return symbol


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def check_checkpoint(prefix: str, epoch: int, kinds: Sequence[str]) -> None:
    """Raise TofuError where files of a checkpoint are missing: its symbol, or those of `kinds` at the epoch."""
    paths = [f"{prefix}-symbol.json", *(f"{prefix}-{epoch:04d}.{kind}" for kind in kinds)]
    found = sorted(path[-11:-7].lstrip("0") or "0" for path in glob(f"{escape(prefix)}-[0-9][0-9][0-9][0-9].params"))
    headline = (
        f"The checkpoint {prefix!r} has no epoch {epoch}; those at {', '.join(found)} are there. These files are missing:"
        if found and os.path.exists(paths[0])
        else f"There is no checkpoint {prefix!r}; module.save_checkpoint(prefix, epoch) writes one. These files are missing:"
    )
    raise_together(TofuError, headline, [path for path in paths if not os.path.exists(path)])


_load_whole_file = mx.symbol.symbol.load


@wraps(_load_whole_file)
def _load_file(fname: str) -> Any:
    try:
        text = read_text(fname) if isinstance(fname, str) else ""
    except (OSError, ValueError):
        text = ""  # MXNet says what is wrong, or knows what kind of file it is
    return read_partition(text) if f'"{ATTRIBUTE}"' in text else _load_whole_file(fname)
