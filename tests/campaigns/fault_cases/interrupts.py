"""Ctrl-C: a real SIGINT at many moments, at each place where a user waits."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tofu
from tests.campaigns.fault_cases.setting import (
    WORKERS,
    Fault,
    assert_same,
    batch,
    begin,
    bind,
    goes_on,
    model,
    parameters,
    refusal,
    train,
    undisturbed,
)

MOMENTS = 4
STEPS = 12
LONGEST_SECONDS = 10.0  # to wait for an interrupt


def interrupt(call: Callable[[], Any], seconds: float) -> bool:
    """Call it, with a SIGINT after so long if it still runs; whether that arrived."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        call()
        timer.cancel()
        timer.join()
        time.sleep(0.001)  # an interrupt that is on its way takes effect here
    except KeyboardInterrupt:
        return True
    finally:
        timer.cancel()
    return False


def _spans(run: Callable[[], Any]) -> list[float]:
    """Moments spread over the time that `run` takes once it is warm."""
    run()
    started = time.perf_counter()
    run()
    return [(time.perf_counter() - started) * (moment + 0.5) / MOMENTS for moment in range(MOMENTS)]


def _repeat(run: Callable[[], Any]) -> None:
    """Until an interrupt comes, for a call that is over before one could; or some seconds, if none does."""
    until = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < until:
        run()


def _said(hits: int) -> str:
    return f"{hits} interrupts hit; then on as undisturbed"


def train_interrupted(_: Path, seed: int) -> str:
    """At random moments of training: steps whose update did not begin are taken again."""
    rng, module, hits = np.random.RandomState(seed), begin(), 0
    number = 0
    while number < STEPS:
        hits += interrupt(partial(train, module, number, STEPS), rng.uniform(0, 0.02))
        number = module.optimizer.num_update
    assert_same(parameters(module), undisturbed(STEPS))
    return f"{hits} interrupts hit; weights of an undisturbed run"


def one_call(_: Path, call: Callable[[Any], Any]) -> str:
    """At moments of a call that must leave the training as it was."""
    module, hits = train(begin(), 0, 2), 0
    for seconds in _spans(lambda: call(module)):
        hits += interrupt(lambda: call(module), seconds)
        assert_same(parameters(module), undisturbed(2))
    assert hits or interrupt(lambda: _repeat(lambda: call(module)), 0.01), "no interrupt hit"
    assert_same(parameters(module), undisturbed(2))
    bind_again(module)
    goes_on(module, 2)
    return _said(max(hits, 1))


def bind_again(module: Any) -> None:
    """For the usual batch."""
    module.reshape([("data", batch(0).data[0].shape)], [("softmax_label", batch(0).label[0].shape)])


def build(_: Path) -> str:
    """During search, emission and bind of a new module, beside one that trains."""
    module, hits = train(begin(), 0, 2), 0

    def make() -> Any:
        return bind(tofu.mod.Module(tofu.partition(model(), WORKERS, cache=False)))

    for seconds in _spans(make):
        hits += interrupt(make, seconds)
    goes_on(module, 2)
    goes_on(train(begin(tofu.mod.Module(tofu.partition(model(), WORKERS, cache=False))), 0, 1), 1)
    return _said(hits)


def save(folder: Path) -> str:
    """While a checkpoint is written over an older one."""
    module, prefix, hits = train(begin(), 0, 2), str(folder / "model"), 0
    module.save_checkpoint(prefix, 1, save_optimizer_states=True)
    for seconds in _spans(lambda: module.save_checkpoint(prefix, 1, save_optimizer_states=True)):
        hits += interrupt(lambda: module.save_checkpoint(prefix, 1, save_optimizer_states=True), seconds)
        assert len(list(folder.iterdir())) == 3, f"left over: {sorted(p.name for p in folder.iterdir())}"
    loaded = bind(tofu.mod.Module.load(prefix, 1, load_optimizer_states=True, ngpus=WORKERS))
    loaded.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.01})
    goes_on(loaded, 2)
    goes_on(module, 2)
    return _said(hits)


def load(folder: Path) -> str:
    """While parameters are read: a half is never trained with."""
    module, path, hits = train(begin(), 0, 2), str(folder / "a.params"), 0
    module.save_params(path)
    for seconds in _spans(lambda: module.load_params(path)):
        hits += interrupt(lambda: module.load_params(path), seconds)
        if not module.params_initialized:  # a half of the file is never trained with
            with refusal("no parameters yet"):
                module.forward(batch(0))
    module.load_params(path)
    goes_on(module, 2)
    return _said(hits)


CALLS: dict[str, Callable[[Any], Any]] = {
    "forward without training": lambda module: module.forward(batch(5), is_train=False),
    "change of batch size": lambda module: [module.forward(batch(5, size), is_train=False) for size in (6, 9)],
    "reading outputs": lambda module: [module.forward(batch(5), is_train=False), module.get_outputs()],
    "gathering the parameters": lambda module: module.get_params(),
    "reading the optimizer's states": lambda module: module.optimizer_states,
}
FAULTS = [
    *(Fault("interrupt", f"training, random moments {s}", partial(train_interrupted, seed=s)) for s in range(6)),
    *(Fault("interrupt", name, partial(one_call, call=call)) for name, call in CALLS.items()),
    Fault("interrupt", "search, emission, bind", build),
    Fault("interrupt", "saving a checkpoint", save),
    Fault("interrupt", "loading parameters", load),
]
