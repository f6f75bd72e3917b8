"""Processes of `jax.distributed` on this machine, which run one scenario of `on_hosts.py` together."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """How a process ended. `said` is what its scenario returned, None where it did not get there."""

    status: int
    said: Any
    errors: str


def find_port() -> int:
    """One that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def prepare(double: bool = True) -> dict[str, str]:
    """The environment of a process that says itself how many devices it has."""
    dropped = ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")
    given = {name: value for name, value in os.environ.items() if name not in dropped}
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": str(int(double))}
    return given | own


def start(
    scenario: str, count: int, devices: int, *arguments: object, double: bool = True
) -> list[subprocess.Popen[str]]:
    """So many processes of so many devices each."""
    port = find_port()
    return [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.jax.on_hosts",
                scenario,
                *map(str, (process, count, devices, port, *arguments)),
            ],
            env=prepare(double),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(count)
    ]


def finish(processes: list[subprocess.Popen[str]], seconds: float) -> list[Ended]:
    """Wait for all of them, each so long at most, and end them."""
    try:
        ended = []
        for process in processes:
            out, errors = process.communicate(timeout=seconds)
            lines = out.splitlines()
            said = json.loads(lines[-1]) if lines and process.returncode == 0 else None
            ended.append(Ended(process.returncode, said, errors))
        return ended
    finally:
        end(processes)


def end(processes: list[subprocess.Popen[str]]) -> None:
    """None is left."""
    for process in processes:
        process.kill()
        process.communicate()


def run(
    scenario: str, count: int, devices: int, *arguments: object, double: bool = True, seconds: float = 240
) -> list[Any]:
    """What a scenario returns in each process; all have to end well."""
    ended = finish(start(scenario, count, devices, *arguments, double=double), seconds)
    assert [one.status for one in ended] == [0] * count, "\n".join(one.errors[-3000:] for one in ended)
    return [one.said for one in ended]
