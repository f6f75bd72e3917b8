"""`calibrate`: measures the present machine, and describes it with its processors as devices, for simulations."""

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
PROGRAMS: Mapping[str, Mapping[str, str]] = {
    "kernels": {"MXNET_ENGINE_TYPE": "NaiveEngine", "MXNET_EXEC_BULK_EXEC_TRAIN": "0", "OMP_NUM_THREADS": "1"},
    "engine": {"OMP_NUM_THREADS": "1"},
}


def calibrate(name: str = "this machine") -> dict[str, Any]:
    """Measure the present machine and return its description, the content of a JSON file.

    It takes about a minute, during which nothing else should run. Raises TofuError if a measuring program fails.
    """
    samples = [Sample(*measured) for measured in _run("kernels")]
    engine = _run("engine")
    cache = _find_cache_bytes()
    fitted = dict(fit_kernels(samples, cache))
    usual = median(rates.call for rates in fitted.values())  # counted twice: in the time per node, and in the kernels
    fitted[UPDATE] = KernelRates(engine["update_call"], 0.0, 0.0, engine["update_byte"], 0.0)
    found: dict[str, Any] = {
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
            "call_microseconds": 1e6 * max(0.0, engine["call"] - usual),
            "call_microseconds_of_several": 1e6 * max(0.0, engine["call_of_several"] - usual),
            "cache_bytes": cache,
            "measured": {kind: asdict(rates) for kind, rates in fitted.items()},
        },
        "sources": [
            f"measured on {os.cpu_count()} processors: {len(samples)} kernels of {len(fitted)} kinds, one thread each, and "
            f"{len(engine['steps'])} whole steps"
        ],
    }
    return {**found, **_find_slowdowns(found, engine["steps"])}


def _find_slowdowns(machine: Mapping[str, Any], steps: Sequence[float]) -> dict[str, float]:
    """Return the median factors by which steps take longer than simulated, on one device and on several."""
    described = read_fields(machine)
    ratios: dict[str, list[float]] = {"slowdown": [], "slowdown_of_several": []}
    for case, took in zip(list_steps(), steps, strict=True):
        task = read_trained(case.symbol, case.shapes, Settings(workers=max(case.workers, 2), cache=False))
        if case.workers == 1:
            ratios["slowdown"].append(took / simulate_one_device(task, described).seconds)
        else:
            ratios["slowdown_of_several"].append(took / simulate(plan_task(task).program, described).seconds)
    return {name: median(found) for name, found in ratios.items()}


def _run(program: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "measured.json"
        command = [sys.executable, "-m", f"tofu.mxnet.calibration.{program}", str(written)]
        ended = subprocess.run(
            command, env={**os.environ, **PROGRAMS[program]}, capture_output=True, text=True, check=False
        )
        if ended.returncode:
            raise TofuError(f"The measuring program ended with status {ended.returncode}:\n{ended.stderr[-2000:]}")
        return json.loads(written.read_text())


def _find_rate(samples: list[Sample], feature: str) -> float:
    own = [s for s in samples if getattr(s, feature) and (feature == "contracted" or not s.contracted)]
    longest = sorted(own, key=lambda sample: sample.seconds)[-max(1, len(own) // 10) :]
    rates = sorted(getattr(sample, feature) / sample.seconds for sample in longest)
    return float(rates[len(rates) // 2])


def _find_cache_bytes() -> int:
    """Return half of a processor's second-level cache, as the other half is for data that a kernel writes."""
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text().strip()
        return int(text.removesuffix("K")) * 1024 // 2
    except (OSError, ValueError):
        return CACHE_BYTES
