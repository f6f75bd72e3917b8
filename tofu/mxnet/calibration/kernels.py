"""Measure how long single kernels take, by running small models under MXNet's profiler.

In this program, MXNet runs one operator at a time, in one thread (`calibrate.PROGRAM_ENVIRONMENTS`). The program writes
the measurements to FILE, as JSON:

    python -m tofu.mxnet.calibration.kernels FILE
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import prod, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np
from mxnet import profiler

from tofu.mxnet.calibration.models import CalibrationCase, list_cases
from tofu.mxnet.planning import plan_task, read_trained
from tofu.mxnet.runtime.executor.sharded_executor import ShardedExecutor
from tofu.planning.settings import Settings
from tofu.program import NodeKind, PlannedProgram
from tofu.simulation.fit import Sample
from tofu.simulation.kernels import FETCH
from tofu.simulation.simulate import write_one_device_program
from tofu.simulation.work import measure_work

STEPS = 7  # measured steps of each case, after a warm-up step
CLONE_PREFIX, FETCH_OPERATOR = "_tofu_clone_", "_tofu_multi_fetch"


class RecordedCase(NamedTuple):
    """Operators and step times of a model that ran under MXNet's profiler.

    `steps` lists the start and end of each step in microseconds on the profiler's clock.
    """

    program: PlannedProgram
    steps: list[tuple[float, float]]


Events = Mapping[tuple[int, str], list[tuple[int, float]]]  # (device, operator) -> begin and seconds of its kernels


def run_case(case: CalibrationCase) -> RecordedCase:
    """Run a few training steps of a model under MXNet's profiler."""
    settings = Settings(workers=max(case.workers, 2), algorithm=case.algorithm, cache=False)
    task = read_trained(case.symbol, case.shapes, settings)
    if case.workers == 1:
        program = write_one_device_program(task)
        executor = case.symbol.simple_bind(mx.cpu(0), grad_req=_list_requests(case), **case.shapes)
        for name, array in executor.arg_dict.items():
            array[:] = _draw_values(name, array.shape)
    else:
        partition = plan_task(task)
        program = partition.program
        executor = ShardedExecutor(partition, [mx.cpu(worker) for worker in range(case.workers)])
        for name, variable in executor.variables.items():
            variable.scatter(_draw_values(name, variable.shape))
    profiler.set_state("stop")
    _run_step(executor)
    profiler.set_state("run")
    steps = []
    for _ in range(STEPS):
        begin = time.time()
        _run_step(executor)
        steps.append((1e6 * begin, 1e6 * time.time()))
    return RecordedCase(program, steps)


def _draw_values(name: str, shape: tuple[int, ...]) -> Any:
    if name.endswith("gamma"):
        return np.ones(shape, "float32")
    if name.endswith("label"):
        return np.zeros(shape, "float32")
    width = sqrt(3 * shape[0] / prod(shape)) if name.endswith("weight") else 1
    return np.random.RandomState(0).uniform(0 if name == "data" else -width, width, shape).astype("float32")


def _list_requests(case: CalibrationCase) -> dict[str, str]:
    names = case.symbol.list_arguments()
    return {name: "null" if name in case.shapes or name.endswith("label") else "write" for name in names}


def _run_step(executor: Any) -> None:
    executor.forward(is_train=True)
    executor.backward()
    mx.nd.waitall()


def read_events(path: Path) -> Events:
    """Return the start time and duration of each kernel. `path` is a file that MXNet's profiler wrote."""
    events = json.loads(path.read_text())["traceEvents"]
    devices = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    begins: dict[tuple[int, int, str], int] = {}
    kernels: dict[tuple[int, str], list[tuple[int, float]]] = defaultdict(list)
    for event in events:
        device = devices.get(event["pid"], "")
        if event["ph"] not in "BE" or not device.startswith("cpu/"):
            continue
        key = event["pid"], event["tid"], event["name"]
        if event["ph"] == "B":
            begins[key] = event["ts"]
        else:
            name = event["name"].removeprefix(CLONE_PREFIX)
            op = FETCH if name == FETCH_OPERATOR else name
            begin = begins[key]
            kernels[int(device[4:]), op].append((begin, 1e-6 * (event["ts"] - begin)))
    return kernels


def match_events(recorded: RecordedCase, events: Events) -> Iterator[Sample]:
    """Yield a `Sample` for each kernel: its amount of work, and its shortest time in `events`."""
    program = recorded.program
    tables = program.tables
    work = measure_work(recorded.program, 0)
    nodes_by_operator: dict[tuple[int, str], list[int]] = defaultdict(list)
    for node in np.flatnonzero(tables.node_kind != NodeKind.VARIABLE).tolist():
        nodes_by_operator[int(tables.node_worker[node]), _find_op(program, node)].append(node)
    for (worker, op), nodes in nodes_by_operator.items():
        kernels = events.get((worker, op), [])
        seconds_by_step = [
            [seconds for begin, seconds in kernels if step_begin <= begin < step_end]
            for step_begin, step_end in recorded.steps
        ]
        if all(len(step_seconds) == len(nodes) for step_seconds in seconds_by_step):
            for position, node in enumerate(nodes):
                computed = work.computed[work.arithmetic[node]]
                contracted = int(work.added[node]) if op == FETCH else computed.contracted
                other = int(work.rows[node]) if op == FETCH else computed.other
                fastest = min(step_seconds[position] for step_seconds in seconds_by_step)
                yield Sample(work.kinds[work.kind[node]], contracted, other, int(work.size[node]), fastest)


def _find_op(program: PlannedProgram, node: int) -> str:
    tables = program.tables
    return (
        program.graph.operators[int(tables.node_id[node])].op if tables.node_kind[node] == NodeKind.OPERATOR else FETCH
    )


def main(path: str) -> None:
    """Measure all kernels, and write their times to the file `path`."""
    with tempfile.TemporaryDirectory() as folder:
        event_file = Path(folder) / "events.json"
        profiler.set_config(
            profile_symbolic=True,
            profile_imperative=False,
            profile_memory=False,
            profile_api=False,
            aggregate_stats=False,
            filename=str(event_file),
        )
        recorded_cases = [run_case(case) for case in list_cases()]
        profiler.set_state("stop")
        profiler.dump()
        events = read_events(event_file)
    Path(path).write_text(json.dumps([sample for case in recorded_cases for sample in match_events(case, events)]))


if __name__ == "__main__":
    main(sys.argv[1])
