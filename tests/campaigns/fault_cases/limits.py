"""Not enough memory, not enough space in files: the limits of this process, lowered for a while."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import mxnet as mx

import tofu
from tests.campaigns.fault_cases.setting import ADAM, WORKERS, Fault, begin, bind, goes_on, refusal, train

WIDE = 6144
WIDE_SHAPES = {"data": (64, WIDE)}
MEMORY_LEFT = 128 << 20  # of the 580 MiB or more that the wide model takes
Call = Callable[[Any], Any]


@contextmanager
def limited(kind: int, most: int) -> Iterator[None]:
    """With a limit of this process lowered to `most`."""
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def address_space() -> int:
    """Bytes that this process has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def wide_model() -> Any:
    """Two square weights of 144 MiB."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=WIDE, no_bias=True, name="wide0")
    net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="tanh"), num_hidden=WIDE, no_bias=True, name="wide1")
    return tofu.partition(mx.sym.MakeLoss(mx.sym.sum(net)), 2, **WIDE_SHAPES)


def _bind_wide(symbol: Any, module: Any) -> None:
    module(symbol, label_names=None).bind(list(WIDE_SHAPES.items()))


def _grow(module: Any) -> None:
    module.reshape([("data", (4_000_000, 17))], [("softmax_label", (4_000_000,))])


def _grow_and_score(module: Any) -> None:
    size = 3_000_000
    module.forward(mx.io.DataBatch([mx.nd.ones((size, 17))], [mx.nd.ones(size)]), is_train=False)
    module.get_outputs()


MEMORY: dict[str, Call] = {
    "tofu.bind": lambda _: tofu.bind(wide_model(), **WIDE_SHAPES),
    "tofu.mod.Module.bind": lambda _: _bind_wide(wide_model(), tofu.mod.Module),
    "mx.mod.Module.bind": lambda _: _bind_wide(wide_model(), mx.mod.Module),
    "reshape to a huge batch": _grow,
    "scoring a huge batch": _grow_and_score,
}


def out_of_memory(_: Path, call: Call) -> str:
    """One error that says how much was asked for; what was bound goes on."""
    module = train(begin(), 0, 2)
    most = address_space() + MEMORY_LEFT
    for _again in range(2):
        with (
            limited(resource.RLIMIT_AS, most),
            refusal("", (tofu.TofuError, mx.MXNetError, MemoryError)) as said,
        ):
            call(module)
        assert "not enough memory" in said[0] or "allocate" in said[0], said[0]
    goes_on(module, 2)
    return said[0]


SAVES: dict[str, Callable[[Any, str], Any]] = {
    "parameters": lambda module, prefix: module.save_params(f"{prefix}-0001.params"),
    "the optimizer's states": lambda module, prefix: module.save_optimizer_states(f"{prefix}-0001.states"),
    "a checkpoint": lambda module, prefix: module.save_checkpoint(prefix, 1, save_optimizer_states=True),
    "a symbol": lambda module, prefix: module.symbol.save(f"{prefix}-symbol.json"),
}


def full_device(folder: Path, save: Callable[[Any, str], Any], most: int) -> str:
    """The error says so, the older checkpoint is whole, nothing else is left, and saving works once there is space."""
    module, prefix = train(begin(), 0, 2), str(folder / "model")
    module.save_checkpoint(prefix, 1, save_optimizer_states=True)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead
    with limited(resource.RLIMIT_FSIZE, most), refusal("", (OSError, tofu.TofuError)) as said:
        save(module, prefix)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before, (
        "the older files are not what they were"
    )
    save(module, prefix)
    loaded = bind(tofu.mod.Module.load(prefix, 1, load_optimizer_states=True, ngpus=WORKERS))
    loaded.init_optimizer(optimizer="adam", optimizer_params=ADAM)
    goes_on(loaded, 2)
    goes_on(module, 2)
    return said[0]


FAULTS = [
    *(Fault("out of memory", name, partial(out_of_memory, call=call)) for name, call in MEMORY.items()),
    *(
        Fault("device full", f"{name}, after {most} bytes", partial(full_device, save=save, most=most))
        for name, save in SAVES.items()
        for most in (0, 1000)
    ),
]
