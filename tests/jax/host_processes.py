"""Run scenarios in processes of `jax.distributed`. Each process runs many scenarios, because it starts slowly."""

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
    name: str
    arguments: tuple[str, ...] = ()
    double: bool = True


def find_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def make_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"}
    return kept | own | {"XLA_FLAGS": COMPILED_FAST}


def run(scenarios: Sequence[Scenario], count: int, devices: int, seconds: float = 240) -> list[list[dict[str, Any]]]:
    """Run scenarios in several processes. Return {"returned": value} or {"failed": text} by scenario and process."""
    port, encoded = find_port(), json.dumps([asdict(scenario) for scenario in scenarios])
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.jax.host_scenarios", *map(str, (process, count, devices, port)), encoded],
            env=make_environment(),
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
        kill(processes)
    return [
        [lines[number] if number < len(lines) else {"failed": why} for lines, why in ended]
        for number in range(len(scenarios))
    ]


def _finish(process: subprocess.Popen[str], seconds: float) -> tuple[list[dict[str, Any]], str]:
    """Wait for a process. Return the outcomes that it printed, and the reason why there are no more."""
    try:
        out, errors = process.communicate(timeout=seconds)
        why = f"the process ended with status {process.returncode}: {errors[-3000:]}"
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
        why = f"the process took more than {seconds} seconds: {errors[-3000:]}"
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")], why


def kill(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()
        process.communicate()
