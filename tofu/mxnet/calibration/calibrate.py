"""Measure the machine that this code runs on. Each of its processors counts as a device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from tofu.errors import TofuError
from tofu.host.host_memory import read_total_bytes
from tofu.mxnet.calibration.models import list_steps
from tofu.mxnet.planning import plan_task, read_trained
from tofu.planning.settings import Settings
from tofu.simulation.fit import Sample, fit_kernels
from tofu.simulation.kernels import UPDATE, KernelRates
from tofu.simulation.machine import FORMAT, read_fields
from tofu.simulation.simulate import simulate, simulate_one_device

MOST_DEVICES = 64  # MXNet allows any number of CPU contexts
CACHE_BYTES = 1 << 20  # used if the system does not report the size
PROGRAM_ENVIRONMENTS: Mapping[str, Mapping[str, str]] = {
    "kernels": {"MXNET_ENGINE_TYPE": "NaiveEngine", "MXNET_EXEC_BULK_EXEC_TRAIN": "0", "OMP_NUM_THREADS": "1"},
    "engine": {"OMP_NUM_THREADS": "1"},
}


def calibrate(name: str = "this machine") -> dict[str, Any]:
    """Measure this machine for simulations. Return its description for a JSON file.

    This takes about a minute. Run no other program at the same time. Raises TofuError if a measurement fails.
    """
    samples = [Sample(*fields) for fields in _run_program("kernels")]
    engine = _run_program("engine")
    cache_bytes = _find_cache_bytes()
    rates_by_kind = dict(fit_kernels(samples, cache_bytes))
    # Both the engine's time for a node and the kernels' times include the time of a call.
    kernel_call_seconds = median(rates.call for rates in rates_by_kind.values())
    rates_by_kind[UPDATE] = KernelRates(engine["update_call"], 0.0, 0.0, engine["update_byte"], 0.0)
    machine: dict[str, Any] = {
        "format": FORMAT,
        "name": name,
        "devices": MOST_DEVICES,
        "memory_bytes": int(read_total_bytes()),
        "processors": engine["processors"],
        "fetches_overlap": False,
        "step_microseconds": 1e6 * engine["step"],
        "rates": {
            "contracted_operations_per_second": {"float32": _find_rate(samples, "contracted")},
            "other_operations_per_second": {"float32": _find_rate(samples, "other")},
            "memory_bytes_per_second": _find_rate(samples, "size"),
            "call_microseconds": 1e6 * max(0.0, engine["call"] - kernel_call_seconds),
            "call_microseconds_of_several": 1e6 * max(0.0, engine["call_of_several"] - kernel_call_seconds),
            "cache_bytes": cache_bytes,
            "measured": {kind: asdict(rates) for kind, rates in rates_by_kind.items()},
        },
        "sources": [
            f"measured on {os.cpu_count()} processors: {len(samples)} kernels of {len(rates_by_kind)} kinds, one thread each, and "
            f"{len(engine['steps'])} whole steps"
        ],
    }
    return {**machine, **_find_slowdowns(machine, engine["steps"])}


def _find_slowdowns(machine_fields: Mapping[str, Any], step_seconds: Sequence[float]) -> dict[str, float]:
    machine = read_fields(machine_fields)
    ratios: dict[str, list[float]] = {"slowdown": [], "slowdown_of_several": []}
    for case, seconds in zip(list_steps(), step_seconds, strict=True):
        task = read_trained(case.symbol, case.shapes, Settings(workers=max(case.workers, 2), cache=False))
        if case.workers == 1:
            ratios["slowdown"].append(seconds / simulate_one_device(task, machine).seconds)
        else:
            ratios["slowdown_of_several"].append(seconds / simulate(plan_task(task).program, machine).seconds)
    return {name: median(values) for name, values in ratios.items()}


def _run_program(program: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "measured.json"
        command = [sys.executable, "-m", f"tofu.mxnet.calibration.{program}", str(output)]
        environment = {**os.environ, **PROGRAM_ENVIRONMENTS[program]}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if result.returncode:
            raise TofuError(f"The measuring program ended with status {result.returncode}:\n{result.stderr[-2000:]}")
        return json.loads(output.read_text())


def _find_rate(samples: list[Sample], feature: str) -> float:
    relevant = [s for s in samples if getattr(s, feature) and (feature == "contracted" or not s.contracted)]
    longest = sorted(relevant, key=lambda sample: sample.seconds)[-max(1, len(relevant) // 10) :]
    rates = sorted(getattr(sample, feature) / sample.seconds for sample in longest)
    return float(rates[len(rates) // 2])


def _find_cache_bytes() -> int:
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text().strip()
        return int(text.removesuffix("K")) * 1024 // 2  # the other half is for the kernel's results
    except (OSError, ValueError):
        return CACHE_BYTES
