"""Processes and threads: killed while saving, forked after training, two that train at once."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.ndarray import register

import tofu
from tests.campaigns.fault_cases.setting import (
    Fault,
    assert_same,
    begin,
    bind,
    goes_on,
    parameters,
    refusal,
    step,
    train,
    undisturbed,
)

PATIENCE_SECONDS = 60


def _save_forever(prefix: str) -> None:
    """In a process of its own: parameters all alike, another number every time, over the same checkpoint."""
    module = begin()
    for value in range(1, 10**9):
        for variable in module.executor.variables.values():
            for array in variable.arrays:
                array[:] = value
        module.save_params(f"{prefix}-0001.params")
        if value == 1:
            module.save_checkpoint(prefix, 1, save_optimizer_states=False)
            print("saving", flush=True)


def killed_while_saving(folder: Path, moments: int) -> str:
    """After kill -9 the file is that of the last save or of the one before, whole."""
    prefix, values = str(folder / "model"), set()
    command = [
        sys.executable,
        "-c",
        f"from tests.campaigns.fault_cases import processes; processes._save_forever({prefix!r})",
    ]
    for _ in range(moments):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            assert process.stdout.readline(), "the process that saves did not start"
            time.sleep(np.random.uniform(0, 0.1))
            process.send_signal(signal.SIGKILL)
        found = parameters(bind(tofu.mod.Module.load(prefix, 1, ngpus=2)))
        numbers = {float(number) for array in found.values() for number in np.unique(array)}
        assert len(numbers) == 1, f"parameters of several saves in one file: {sorted(numbers)}"
        values |= numbers
    train(begin(), 0, 1).save_checkpoint(prefix, 1)
    return f"{moments} kills; each file whole, of saves {sorted(int(v) for v in values)}"


def in_child(run: Callable[[], Any]) -> str:
    """What `run` gives or raises in a forked process; AssertionError where it hangs or dies."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = f"gave {run()}"
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps(text[:2000]).encode())
        os._exit(0)
    os.close(writing)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError("the forked process hangs")
        time.sleep(0.01)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    assert text, "the forked process died"
    return str(json.loads(text))


def forked(_: Path, call: Callable[[Any], Any], expected: str) -> str:
    """After training, in a forked process; the parent goes on."""
    module = train(begin(), 0, 2)
    said = in_child(lambda: call(module))
    assert expected in said, said
    goes_on(module, 2)
    return said[:90]


def _read(module: Any) -> bool:
    assert_same(parameters(module), undisturbed(2))
    return True


def data_loaders(_: Path, kind: str) -> str:
    """Forked workers that load data, between steps."""
    module = begin()
    rows = np.arange(48.0).reshape(24, 2)
    for number in range(2):
        step(module, number)
        if kind == "gluon":
            data = mx.gluon.data.ArrayDataset(rows)
            total = sum(
                float(part.asnumpy().sum()) for part in mx.gluon.data.DataLoader(data, batch_size=6, num_workers=2)
            )
        else:
            with multiprocessing.get_context("fork").Pool(2) as pool:
                total = sum(pool.map(np.sum, rows))
        assert total == rows.sum(), f"the loader gave {total}"
    goes_on(module, 2)
    return "all data loaded in two processes"


def threads(_: Path, count: int) -> str:
    """Modules that train at once, with an operator of MXNet's own beside them."""
    before = register._imperative_invoke, mx.nd.NDArray.__setitem__
    modules = [begin() for _ in range(count)]
    running = [threading.Thread(target=train, args=(module, 0, 8)) for module in modules]
    for thread in running:
        thread.start()
    while any(thread.is_alive() for thread in running):
        assert float(mx.nd.ones((3, 4)).sum().asscalar()) == 12
    for module in modules:
        assert_same(parameters(module), undisturbed(8))
    assert (register._imperative_invoke, mx.nd.NDArray.__setitem__) == before, "MXNet's functions stay replaced"
    return "the weights of one after the other"


def thread_that_fails(_: Path) -> str:
    """An optimizer that raises in one thread, while another trains."""
    module, failing = begin(), begin()
    failing.optimizer.lr_scheduler = lambda _: 1 / 0
    said: list[str] = []

    def fail() -> None:
        for number in range(5):
            with refusal("division by zero") as words:
                step(failing, number)
            said.extend(words)

    thread = threading.Thread(target=fail)
    thread.start()
    train(module, 0, 8)
    thread.join()
    assert_same(parameters(module), undisturbed(8))
    assert_same(parameters(failing), undisturbed(0))
    assert len(said) == 5, said
    return f"{said[0]}, in its own thread alone"


FORKED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "forward": (lambda module: step(module, 2), "cannot run in"),
    "reading outputs": (lambda module: module.get_outputs(), "cannot run in"),
    "update": (lambda module: module.update(), "cannot run in"),
    "reading parameters": (_read, "gave True"),
    "MXNet's own operators": (lambda _: float(mx.nd.ones((3, 3)).sum().asscalar()), "gave 9.0"),
    "a new model": (lambda _: parameters(train(begin(), 0, 2)).keys() == undisturbed(2).keys(), "gave True"),
}
FAULTS = [
    *(Fault("fork", name, partial(forked, call=call, expected=expected)) for name, (call, expected) in FORKED.items()),
    *(Fault("fork", f"data loader, {kind}", partial(data_loaders, kind=kind)) for kind in ("gluon", "multiprocessing")),
    *(Fault("threads", f"{count} that train", partial(threads, count=count)) for count in (2, 3)),
    Fault("threads", "an optimizer raises in one", thread_that_fails),
    *(
        Fault("kill -9", f"saving, {moments} moments", partial(killed_while_saving, moments=moments))
        for moments in (2, 3)
    ),
]
