"""The good files, and how each kind is read: what is read is compared as a value, so that a change that is let in is seen."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mxnet as mx

import tofu
from tofu.mxnet.runtime.checkpoint.checkpoint import ParameterFile
from tofu.mxnet.runtime.checkpoint.seal import open_regular, read_seal
from tofu.mxnet.runtime.checkpoint.states import load_states, optimizer_types
from tofu.mxnet.runtime.symbol.files import read_symbol
from tofu.planning.settings import read_plan
from tofu.search.topology import read_topology

BATCH, FEATURES = 8, 6


@dataclass(frozen=True)
class Kind:
    """A kind of file: how its content is read.

    `says`: what the content of a file without a checksum is by what it says; others have to be refused or warned of where they differ.
    """

    name: str
    path: Path
    other: Path
    read: Callable[[Path], Any]
    is_json: bool = False
    says: Callable[[bytes], Any] | None = None


def make_model() -> Any:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc0")
    net = mx.sym.BatchNorm(mx.sym.Activation(net, act_type="relu"), eps=1e-3, name="bn")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=4, name="fc1"), name="softmax")


def make_module() -> Any:
    module = tofu.mod.Module(tofu.partition(make_model(), 4, hints={"fc0_weight": 0}))
    module.bind([("data", (BATCH, FEATURES))], [("softmax_label", (BATCH,))])
    mx.random.seed(1)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.01})
    return module


def train(module: Any, steps: int) -> None:
    batch = mx.io.DataBatch([mx.nd.random.uniform(shape=(BATCH, FEATURES))], [mx.nd.zeros(BATCH)])
    for _ in range(steps):
        module.forward_backward(batch)
        module.update()


def arrays_of(value: Any) -> Any:
    """A value with its arrays as bytes, and objects as their fields."""
    if isinstance(value, mx.nd.NDArray):
        return value.shape, str(value.dtype), value.asnumpy().tobytes()
    if isinstance(value, dict):
        return {repr(key): arrays_of(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(arrays_of(inner) for inner in value)]
    if hasattr(value, "__dict__") and not callable(value):
        return type(value).__name__, arrays_of(vars(value))
    return repr(value)


def parameters_of(module: Any) -> Any:
    return arrays_of([dict(part) for part in module.get_params()])


def read_parameters(path: Path) -> Any:
    return arrays_of(dict(ParameterFile(path)))


def read_plan_file(path: Path) -> Any:
    plan = read_plan(path)
    assert plan is not None
    return json.loads(plan.to_json())


def read_model(path: Path) -> Any:
    symbol = read_symbol(str(path))
    whole = json.loads(getattr(symbol, "whole", symbol).tojson())
    return whole, repr(getattr(symbol, "settings", None)), repr(getattr(symbol, "contexts", None))


def read_levels(path: Path) -> Any:
    found = read_topology(path)
    return None if found is None else found.to_plain()


def levels_said(content: bytes) -> Any:
    value = json.loads(content)
    return [dict(level) if isinstance(level, dict) else {"bytes_per_second": level} for level in value["levels"]]


def model_said(content: bytes) -> Any:
    """What a text computes, as trees from its heads: MXNet numbers the nodes anew, and leaves out those that nothing reads."""
    value = json.loads(content)
    trees: list[Any] = []
    for node in value["nodes"]:
        inputs = [(trees[entry[0]], entry[1]) for entry in node["inputs"]]
        trees.append((node["op"], node["name"], node.get("attrs", {}), inputs))
    return [(trees[entry[0]], entry[1]) for entry in value["heads"]]


def nodes_read(path: Path) -> Any:
    return model_said(json.dumps(read_model(path)[0]).encode())


def partitioned_said(content: bytes) -> Any:
    """Of a file that was one of a partitioned symbol, and lacks the attribute that says so: a symbol of MXNet's."""
    value = json.loads(content)
    if "tofu" in value.get("attrs", {}):
        return None
    return json.loads(mx.sym.load_json(content.decode()).tojson()), "None", "None"


def plan_said(content: bytes) -> Any:
    """Of a plan without a digest: all that it says, as it says it; what it need not say, as it is then."""
    absent: dict[str, Any] = {name: [] for name in ("level_bytes", "bandwidths", "kept", "reread")}
    return {**absent, "inputs": {}, **json.loads(content)}


def make_files(folder: Path) -> None:
    """All good files, of two epochs each."""
    module = make_module()
    for epoch in (1, 2):
        train(module, 3)
        prefix = folder / f"m{epoch}"
        module.save_checkpoint(str(prefix), 0, save_optimizer_states=True)
        arguments, states = module.get_params()
        named = {f"arg:{n}": a for n, a in arguments.items()} | {f"aux:{n}": a for n, a in states.items()}
        mx.nd.save(f"{prefix}-mxnets.params", named)
        mx.nd.save(f"{prefix}-sparse.params", {n: a.tostype("row_sparse") for n, a in named.items() if a.ndim == 2})
        Path(f"{prefix}-mxnets.states").write_bytes(pickle.dumps(module._shard_optimizer.content))
        plan = tofu.partition(make_model(), 4, algorithm=("exact", "recursive")[epoch - 1], data=(BATCH, FEATURES)).plan
        Path(f"{prefix}-plan.json").write_text(plan.to_json())
        value = json.loads(plan.to_json())
        del value["digest"]
        Path(f"{prefix}-edited.json").write_text(json.dumps(value))
        Path(f"{prefix}-plain.json").write_text(make_model().tojson())
        levels = [{"workers": 2, "bytes_per_second": 1e10 * epoch}, {"workers": 2, "bytes_per_second": 5e10}]
        Path(f"{prefix}-topology.json").write_text(json.dumps({"levels": levels}))


def list_kinds(folder: Path, own: Any) -> list[Kind]:
    """Every kind, with a good file and another one."""

    def kind(name: str, ending: str, read: Callable[[Path], Any], **rest: Any) -> Kind:
        return Kind(name, folder / f"m1{ending}", folder / f"m2{ending}", read, **rest)

    def read_states(path: Path) -> Any:
        return arrays_of(load_states(path, optimizer_types(own))[0])

    return [
        kind("parameters", "-0000.params", read_parameters),
        kind("optimizer states", "-0000.states", read_states),
        kind("parameters by MXNet", "-mxnets.params", read_parameters),
        kind("sparse parameters by MXNet", "-sparse.params", read_parameters),
        kind("optimizer states by MXNet", "-mxnets.states", read_states),
        kind("partitioned symbol", "-symbol.json", read_model, is_json=True, says=partitioned_said),
        kind("symbol by MXNet", "-plain.json", nodes_read, is_json=True, says=model_said),
        kind("plan", "-plan.json", read_plan_file, is_json=True),
        kind("plan without a digest", "-edited.json", read_plan_file, is_json=True, says=plan_said),
        kind("topology", "-topology.json", read_levels, is_json=True, says=levels_said),
    ]


def read_checkpoint(prefix: Path) -> Any:
    """A checkpoint of three files, as a module that is loaded from it has it."""
    module = tofu.mod.Module.load(str(prefix), 0, load_optimizer_states=True)
    states = prefix.parent / f"{prefix.name}-0000.states"
    with open_regular(states) as file:
        seal = read_seal(file, str(states))
    return read_parameters(prefix.parent / f"{prefix.name}-0000.params"), module.symbol.tojson(), seal
