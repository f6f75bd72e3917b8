"""Partitioned symbols in files: MXNet's JSON of the original model, with settings and plan in the graph's attributes.

Plain MXNet reads such a file as the model itself. Where Tofu is imported, MXNet's own loaders give the partitioned symbol back,
so that `Module.load` and checkpoints do not fall back to one device.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from glob import escape, glob
from typing import IO, Any

import mxnet as mx

from tofu.errors import TofuError, raise_together
from tofu.plan import Plan
from tofu.planning import Settings
from tofu.runtime.devices import resolve_contexts
from tofu.search.algorithms import DEFAULT_ALGORITHM, DEFAULT_SEARCH_SECONDS
from tofu.search.topology import read_topology

ATTRIBUTE = "tofu"
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
    model.setdefault("attrs", {})[ATTRIBUTE] = ["str", json.dumps(value, sort_keys=True)]
    return json.dumps(model, indent=2)


def read_partition(text: str) -> Any:
    """The symbol in a JSON text: partitioned if it was saved so."""
    from tofu.runtime.symbol import PartitionedSymbol

    attributes = json.loads(text).get("attrs", {})
    whole = _load_whole(text)
    if ATTRIBUTE not in attributes:
        return whole
    value = json.loads(attributes[ATTRIBUTE][1])
    hints = value["hints"]
    settings = Settings(
        workers=value["workers"],
        hints=None if hints is None else {name: _rich_hint(hint) for name, hint in hints.items()},
        plan=None if value["pinned_plan"] is None else Plan.from_json(value["pinned_plan"]),
        for_training=value["for_training"],
        undescribed=value["undescribed"],
        cache=value["cache"],
        algorithm=value.get("algorithm", DEFAULT_ALGORITHM),
        search_seconds=value.get("search_seconds", DEFAULT_SEARCH_SECONDS),
        topology=read_topology(value.get("topology")),
        memory_limit=value.get("memory_limit"),
        saved=None if value["plan"] is None else Plan.from_json(value["plan"]),
    )
    contexts = [mx.Context(device, number) for device, number in value["contexts"]]
    return PartitionedSymbol(whole, settings, resolve_contexts(settings.workers, contexts))


def _plain_hint(hint: Any) -> Any:
    return ["..." if step is Ellipsis else step for step in hint] if isinstance(hint, (list, tuple)) else hint


def _rich_hint(hint: Any) -> Any:
    return [Ellipsis if step == "..." else step for step in hint] if isinstance(hint, list) else hint


@contextmanager
def replace_atomically(path: str) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` once it is complete; after an error, `path` is as it was."""
    temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def write_atomically(path: str, text: str) -> None:
    """Write a text file so that a reader sees the old one or the whole new one."""
    with replace_atomically(path) as file:
        file.write(text.encode())


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
        with open(path) as file:
            nodes = json.load(file)["nodes"]  # MXNet's own errors name neither the file nor what is wrong
        if not nodes:
            raise ValueError("it has no nodes")
        return mx.sym.load(path)
    except (OSError, ValueError, LookupError, TypeError, mx.base.MXNetError) as error:
        reason = (
            "it has no nodes" if isinstance(error, (LookupError, TypeError)) else str(error).strip().splitlines()[-1]
        )
        raise TofuError(
            f"{path} is not a symbol that MXNet can read ({reason}). Save one with symbol.save(...)."
        ) from error


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
    if isinstance(fname, str) and os.path.exists(fname):
        with open(fname) as file:
            text = file.read()
        if f'"{ATTRIBUTE}"' in text:
            return read_partition(text)
    return _load_whole_file(fname)
