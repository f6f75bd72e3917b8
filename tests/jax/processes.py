"""Processes of `jax.distributed` on this machine, which run scenarios of `on_hosts.py` together, one after another.

Starting processes and importing JAX takes longer than most scenarios, so one group of processes runs many.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.campaigns.jax_equality import COMPILED_FAST

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Scenario:
    """A function of `on_hosts.py` with its arguments, in double precision or in JAX's default."""

    name: str
    arguments: tuple[str, ...] = ()
    double: bool = True


def find_port() -> int:
    """Return a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def prepare() -> dict[str, str]:
    """Return the environment of a process that sets its own number of devices."""
    kept = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"}
    return kept | own | {"XLA_FLAGS": COMPILED_FAST}


def run(scenarios: Sequence[Scenario], count: int, devices: int, seconds: float = 240) -> list[list[dict[str, Any]]]:
    """Run scenarios in `count` processes of `devices` devices each.

    Returns, for each scenario, the outcome in each process: {"returned": a value} or {"failed": text}. A scenario that fails in every
    process does not keep the next ones from running; one that some process never leaves does, once `seconds` have passed.
    """
    port, words = find_port(), json.dumps([asdict(one) for one in scenarios])
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.jax.on_hosts", *map(str, (process, count, devices, port)), words],
            env=prepare(),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(count)
    ]
    try:
        ended = [_finish(process, seconds) for process in processes]
    finally:
        end(processes)
    return [
        [lines[number] if number < len(lines) else {"failed": why} for lines, why in ended]
        for number in range(len(scenarios))
    ]


def _finish(process: subprocess.Popen[str], seconds: float) -> tuple[list[dict[str, Any]], str]:
    """Wait for a process. Returns the outcomes that it printed, and why there are no more."""
    try:
        out, errors = process.communicate(timeout=seconds)
        why = f"the process ended with status {process.returncode}: {errors[-3000:]}"
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
        why = f"the process took more than {seconds} seconds: {errors[-3000:]}"
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")], why


def end(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Kill the processes that are left."""
    for process in processes:
        process.kill()
        process.communicate()
