"""Comparison of the results and of the bytes transferred of two runs. Some tensors are left out, for a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tofu.compare.agreement import Traffic
from tofu.compare.numbers import Difference, RunNumbers, compare_numbers
from tofu.mxnet.backend.inference import build_inference
from tofu.mxnet.check import count_traffic
from tofu.mxnet.compare.exclusions import find_defects, find_random
from tofu.mxnet.compare.runs import Run
from tofu.pipeline import Partition

NOT_FINITE = "one device computes no finite numbers from these values; pass your own values="


@dataclass(frozen=True)
class ComparedRuns:
    """Differences of two runs. `excused` maps tensors that are left out to the reason."""

    training: tuple[Difference, ...]
    inference: tuple[Difference, ...]
    excused: Mapping[str, str]

    @property
    def largest(self) -> float:
        """Largest difference."""
        return max((difference.error for difference in (*self.training, *self.inference)), default=0.0)


def compare_runs(partition: Partition, found: Run, expected: Run, cancelled: float) -> ComparedRuns:
    """Compare all tensors, except if they depend on random numbers, or have infinite or NaN values on one device."""
    excused = _by_name(partition, find_random(partition.searched.problem.graph, partition.searched.problem.accesses))
    differences = []
    for ours, theirs in ((found.training, expected.training), (found.inference, expected.inference)):
        tensors = [item for kind in theirs.by_kind.values() for item in kind.items()]
        for name in (name for name, tensor in tensors if not np.isfinite(tensor.astype(np.float64)).all()):
            excused.setdefault(name, NOT_FINITE)
        kept = RunNumbers(*({n: t for n, t in kind.items() if n not in excused} for kind in theirs.by_kind.values()))
        differences.append(compare_numbers(ours, kept, cancelled))
    training, inference = differences
    return ComparedRuns(training, inference, excused)


def find_fixed(compared: ComparedRuns, fixed: ComparedRuns, tolerance: float) -> list[str]:
    """Return the names of the tensors that differ in `compared` and agree in `fixed`."""
    right = {(d.kind, d.name) for d in (*fixed.training, *fixed.inference) if d.error <= tolerance}
    return [d.name for d in compared.training if d.error > tolerance and (d.kind, d.name) in right]


def excuse_defects(partition: Partition, compared: ComparedRuns, tolerance: float) -> ComparedRuns:
    """Return the comparison without tensors that differ because of a known mistake of MXNet."""
    known = _by_name(partition, find_defects(partition.source.graph))
    wrong = [d for d in (*compared.training, *compared.inference) if d.error > tolerance and d.name in known]
    excused = {d.name: f"differs by {d.error:.1e}; {known[d.name]} (docs/limits.md)" for d in wrong}
    missing = [name for name, reason in compared.excused.items() if reason == NOT_FINITE and name in known]
    excused |= {name: f"one device computes no finite numbers; {known[name]} (docs/limits.md)" for name in missing}
    training, inference = (tuple(d for d in run if d not in wrong) for run in (compared.training, compared.inference))
    return ComparedRuns(training, inference, {**compared.excused, **excused})


def measure_traffic(partition: Partition, found: Run, trains: bool) -> dict[str, Traffic]:
    """Return the bytes transferred in training and in inference. Only training is compared with the plan."""
    emitted = count_traffic(build_inference(partition).symbol).remote_bytes
    inference = {"inference": Traffic(None, emitted, found.inference_bytes)}
    if not trains:
        return inference
    emitted = count_traffic(partition.training.symbol).remote_bytes
    return {"training": Traffic(partition.plan.communication_bytes, emitted, found.training_bytes)} | inference


def _by_name(partition: Partition, reasons: Mapping[int, str]) -> dict[str, str]:
    graph = partition.graph
    heads = partition.source.native.list_outputs()[: len(graph.outputs)]
    named = {name: reasons[t] for name, t in zip(heads, graph.outputs, strict=True) if t in reasons}
    named |= {graph.tensors[of].name: reasons[t] for of, t in graph.gradients.items() if t in reasons}
    return named | {graph.tensors[t].name: reasons[t] for t in graph.written_in_place if t in reasons}
