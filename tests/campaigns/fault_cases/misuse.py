"""Calls that cannot be: in a wrong order, with other shapes, with files that are not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np

import tofu
from tests.campaigns.fault_cases.setting import FEATURES, Fault, batch, begin, bind, goes_on, model, refusal, train

Call = Callable[[Any, Path], Any]


def _batch_of(data: tuple[int, ...], labels: int) -> Any:
    return mx.io.DataBatch([mx.nd.ones(data)], [mx.nd.ones(labels)])


def _cut_file(module: Any, folder: Path, kind: str, keep: float) -> str:
    module.save_checkpoint(str(folder / "m"), 1, save_optimizer_states=True)
    path = folder / f"m-0001.{kind}"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    return str(path)


def _load_without_symbol(folder: Path) -> None:
    (folder / "m-symbol.json").write_text("{}")
    (folder / "m-0001.params").write_bytes(b"")
    tofu.mod.Module.load(str(folder / "m"), 1)


def _save_to(module: Any, path: Path) -> None:
    module.save_params(str(path))


def _bind_anew(module: Any) -> None:
    module.bind(module.data_shapes, module.label_shapes, force_rebind=True)


CALLS: dict[str, tuple[str, Call]] = {
    "backward before forward": ("nothing to differentiate", lambda m, _: [_bind_anew(m), m.backward()]),
    "update after a forward alone": ("no gradients", lambda m, _: [m.forward(batch(0), is_train=True), m.update()]),
    "a batch of other features": ("another shape", lambda m, _: m.forward(_batch_of((12, 16), 12))),
    "a batch of other rank": ("another shape", lambda m, _: m.forward(_batch_of((12, FEATURES, 1), 12))),
    "two inputs for one": ("does not fit the model", lambda m, _: m.forward(mx.io.DataBatch([mx.nd.ones((12, 17))] * 2, []))),
    "a reshape that changes parameters": ("another shape", lambda m, _: m.reshape([("data", (12, 16))], [("softmax_label", (12,))])),
    "parameters of another shape": ("another shape", lambda m, _: m.set_params(m.get_params()[0] | {"out_bias": mx.nd.ones(2)}, {})),
    "parameters missing": ("missing", lambda m, _: m.set_params({}, {})),
    "a gradient that is not there": ("has no gradient", lambda m, _: m.executor.gradient("data")),
    "gradients of inputs not asked for": ("inputs_need_grad", lambda m, _: m.get_input_grads()),
    "a checkpoint that is not there": ("missing", lambda _, f: tofu.mod.Module.load(str(f / "none"), 1)),
    "a symbol that is none": ("not a symbol", lambda _, f: _load_without_symbol(f)),
    "parameters cut to nothing": ("", lambda m, f: m.load_params(_cut_file(m, f, "params", 0))),
    "parameters cut in the middle": ("", lambda m, f: m.load_params(_cut_file(m, f, "params", 0.5))),
    "parameters cut near the end": ("", lambda m, f: m.load_params(_cut_file(m, f, "params", 0.97))),
    "states cut to nothing": ("", lambda m, f: m.load_optimizer_states(_cut_file(m, f, "states", 0))),
    "states cut in the middle": ("", lambda m, f: m.load_optimizer_states(_cut_file(m, f, "states", 0.5))),
    "states instead of parameters": ("", lambda m, f: m.load_params(_cut_file(m, f, "states", 1))),
    "parameters instead of states": ("", lambda m, f: m.load_optimizer_states(_cut_file(m, f, "params", 1))),
}  # fmt: skip
SYSTEM_CALLS: dict[str, Call] = {
    "saving into a folder that is not there": lambda m, f: _save_to(m, f / "none" / "a.params"),
    "saving over a folder": lambda m, f: [(f / "a.params").mkdir(), _save_to(m, f / "a.params")],
    "loading a file that is not there": lambda m, f: m.load_params(str(f / "none.params")),
    "loading states that are not there": lambda m, f: m.load_optimizer_states(str(f / "none.states")),
    "a full device": lambda m, _: (
        m.save_params("/dev/full") if os.getuid() else _save_to(m, Path("/proc/none/a.params"))
    ),
}


def refused(folder: Path, words: str, call: Call, kinds: Any) -> str:
    """One clear error, and training goes on as undisturbed."""
    module = train(begin(), 0, 2)
    with refusal(words, kinds) as said:
        call(module, folder)
    if module.data_shapes[0].shape != (12, FEATURES):
        bind(module)
    goes_on(module, 2)
    assert not [path for path in folder.iterdir() if path.name.endswith(".tmp")], "temporary files are left"
    return said[0]


def other_batch_sizes(_: Path, sizes: tuple[int, ...]) -> str:
    """Batches of other sizes in between leave parameters and optimizer as they were, and score as on one device."""
    module = train(begin(), 0, 2)
    single = begin(mx.mod.Module(model()))
    single.set_params(*module.get_params())
    for size in sizes:
        for each in (module, single):
            each.forward(batch(7, size), is_train=False)
        found, expected = (each.get_outputs()[0].asnumpy() for each in (module, single))
        assert np.allclose(found, expected, rtol=1e-10, atol=0), f"other numbers at batch size {size}"
    goes_on(module, 2)
    return "the outputs of one device, then on as undisturbed"


FAULTS = [
    *(
        Fault("misuse", name, partial(refused, words=words, call=call, kinds=(tofu.TofuError, OSError)))
        for name, (words, call) in CALLS.items()
    ),
    *(
        Fault("file system", name, partial(refused, words="", call=call, kinds=(OSError, tofu.TofuError)))
        for name, call in SYSTEM_CALLS.items()
    ),
    *(
        Fault("batch size", f"sizes {sizes}", partial(other_batch_sizes, sizes=sizes))
        for sizes in ((6, 12), (5, 9, 24), (4, 48, 4))
    ),
]
