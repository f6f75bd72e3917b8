"""Compare the results of two runs of a model, and count the bytes that workers transfer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tofu.compare.agreement import Traffic
from tofu.compare.numbers import Difference, RunNumbers, compare_numbers
from tofu.mxnet.backend.inference import build_inference
from tofu.mxnet.check.execution import count_remote_bytes
from tofu.mxnet.compare.exclusions import find_defects, find_random
from tofu.mxnet.compare.runs import Run
from tofu.pipeline import Partition

NOT_FINITE = "one device computes no finite numbers from these values; pass your own values="


@dataclass(frozen=True)
class ComparedRuns:
    """Differences between a run on several workers and a run on one device.

    `excused` lists tensors that were not compared, each with the reason.
    """

    training: tuple[Difference, ...]
    inference: tuple[Difference, ...]
    excused: Mapping[str, str]

    @property
    def not_finite(self) -> tuple[str, ...]:
        """Names of the tensors that have NaN or infinity in the run on a single device."""
        return tuple(name for name, reason in self.excused.items() if reason == NOT_FINITE)

    @property
    def largest(self) -> float:
        """The largest error of all tensors."""
        return max((difference.error for difference in (*self.training, *self.inference)), default=0.0)


def compare_runs(partition: Partition, workers_run: Run, device_run: Run, cancelled: float) -> ComparedRuns:
    """Compare the results of all workers with the results of one device.

    Tensors are not compared if they are random, or have NaN or infinity in `device_run`.
    """
    problem = partition.searched.problem
    excused = _name_tensors(partition, find_random(problem.graph, problem.accesses))
    training = _compare_step(workers_run.training, device_run.training, excused, cancelled)
    inference = _compare_step(workers_run.inference, device_run.inference, excused, cancelled)
    return ComparedRuns(training, inference, excused)


def _compare_step(
    numbers: RunNumbers, expected: RunNumbers, excused: dict[str, str], cancelled: float
) -> tuple[Difference, ...]:
    kinds = expected.by_kind.values()
    for name, tensor in (item for arrays in kinds for item in arrays.items()):
        if not np.isfinite(tensor.astype(np.float64)).all():
            excused.setdefault(name, NOT_FINITE)
    compared = ({name: tensor for name, tensor in arrays.items() if name not in excused} for arrays in kinds)
    return compare_numbers(numbers, RunNumbers(*compared), cancelled)


def find_fixed(comparison: ComparedRuns, corrected: ComparedRuns, tolerance: float) -> list[str]:
    """Return the names of tensors that are wrong in `comparison`, but not in `corrected`.

    A tensor is wrong if its error is above `tolerance`, or if the run on one device has NaN or infinity in it.
    """
    still_wrong = _list_wrong(corrected, tolerance)
    agreeing = {d.name for d in (*corrected.training, *corrected.inference)}.difference(still_wrong)
    return [name for name in (*_list_wrong(comparison, tolerance), *comparison.not_finite) if name in agreeing]


def _list_wrong(comparison: ComparedRuns, tolerance: float) -> dict[str, None]:
    differences = (*comparison.training, *comparison.inference)
    return dict.fromkeys(d.name for d in differences if d.error > tolerance)


def excuse_defects(partition: Partition, comparison: ComparedRuns, tolerance: float) -> ComparedRuns:
    """Return `comparison` without the differences that known mistakes of MXNet cause."""
    defects = _name_tensors(partition, find_defects(partition.source.graph))
    differences = (*comparison.training, *comparison.inference)
    wrong = [d for d in differences if d.error > tolerance and d.name in defects]
    excused = {d.name: f"differs by {d.error:.1e}; {defects[d.name]} (docs/limits.md)" for d in wrong}
    for name in comparison.not_finite:
        if name in defects:
            excused[name] = f"one device computes no finite numbers; {defects[name]} (docs/limits.md)"
    training = tuple(d for d in comparison.training if d not in wrong)
    inference = tuple(d for d in comparison.inference if d not in wrong)
    return ComparedRuns(training, inference, {**comparison.excused, **excused})


def measure_traffic(partition: Partition, workers_run: Run, trains: bool) -> dict[str, Traffic]:
    """Return the bytes that workers transfer: as planned, in the execution graph, and in the run."""
    graph_bytes = count_remote_bytes(build_inference(partition).symbol)
    inference = {"inference": Traffic(None, graph_bytes, workers_run.inference_bytes)}
    if not trains:
        return inference
    graph_bytes = count_remote_bytes(partition.training.symbol)
    training = Traffic(partition.plan.communication_bytes, graph_bytes, workers_run.training_bytes)
    return {"training": training, **inference}


def _name_tensors(partition: Partition, reasons: Mapping[int, str]) -> dict[str, str]:
    graph = partition.graph
    output_names = partition.source.native.list_outputs()[: len(graph.outputs)]
    outputs = zip(output_names, graph.outputs, strict=True)
    gradients = ((graph.tensors[argument].name, tensor) for argument, tensor in graph.gradients.items())
    states = ((graph.tensors[tensor].name, tensor) for tensor in graph.written_in_place)
    return {name: reasons[t] for name, t in (*outputs, *gradients, *states) if t in reasons}
