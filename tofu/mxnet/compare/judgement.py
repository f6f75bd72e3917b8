"""Two runs held against each other: what is compared, what cannot be and why, and the bytes that moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tofu.compare.agreement import Traffic
from tofu.compare.numbers import Array, Difference, Numbers, compare_numbers
from tofu.mxnet.backend.inference import build_inference
from tofu.mxnet.check import count_traffic
from tofu.mxnet.compare.runs import Run
from tofu.mxnet.compare.taint import find_defects, find_random
from tofu.pipeline import Partition

NOT_FINITE = "one device gives no finite numbers on these values; give values= of your own"


@dataclass(frozen=True)
class Pair:
    """The differences of two runs, and the tensors that are left out, with the reason."""

    training: tuple[Difference, ...]
    inference: tuple[Difference, ...]
    excused: Mapping[str, str]

    @property
    def largest(self) -> float:
        """The largest difference."""
        return max((one.error for one in (*self.training, *self.inference)), default=0.0)


def compare_runs(partition: Partition, found: Run, expected: Run, cancelled: float) -> Pair:
    """Every tensor but those that random numbers reach, and those of which one device has no numbers."""
    excused = _by_name(partition, find_random(partition.searched.problem.graph, partition.searched.problem.accesses))
    differences = []
    for ours, theirs in ((found.training, expected.training), (found.inference, expected.inference)):
        for name in (name for kind in theirs.by_kind.values() for name, one in kind.items() if not _is_finite(one)):
            excused.setdefault(name, NOT_FINITE)
        kept = Numbers(*({n: t for n, t in kind.items() if n not in excused} for kind in theirs.by_kind.values()))
        differences.append(compare_numbers(ours, kept, cancelled))
    training, inference = differences
    return Pair(training, inference, excused)


def find_mended(pair: Pair, mended: Pair, tolerance: float) -> list[str]:
    """The tensors that differ in `pair` and agree in `mended`."""
    right = {(one.kind, one.name) for one in (*mended.training, *mended.inference) if one.error <= tolerance}
    return [one.name for one in pair.training if one.error > tolerance and (one.kind, one.name) in right]


def excuse_defects(partition: Partition, pair: Pair, tolerance: float) -> Pair:
    """The same without the tensors that differ where MXNet itself is known to be wrong."""
    known = _by_name(partition, find_defects(partition.source.graph))
    wrong = [one for one in (*pair.training, *pair.inference) if one.error > tolerance and one.name in known]
    excused = {one.name: f"differs by {one.error:.1e}; {known[one.name]} (docs/limits.md)" for one in wrong}
    missing = [name for name, reason in pair.excused.items() if reason == NOT_FINITE and name in known]
    excused |= {name: f"one device gives no finite numbers; {known[name]} (docs/limits.md)" for name in missing}
    training, inference = (tuple(one for one in run if one not in wrong) for run in (pair.training, pair.inference))
    return Pair(training, inference, {**pair.excused, **excused})


def measure_traffic(partition: Partition, found: Run, trains: bool) -> dict[str, Traffic]:
    """The bytes of both graphs. A plan counts operators as they train, and some of them move less in inference."""
    emitted = count_traffic(build_inference(partition).symbol).remote_bytes
    inference = {"inference": Traffic(None, emitted, found.inference_bytes)}
    if not trains:
        return inference
    emitted = count_traffic(partition.training.symbol).remote_bytes
    return {"training": Traffic(partition.plan.communication_bytes, emitted, found.training_bytes)} | inference


def _is_finite(tensor: Array) -> bool:
    return bool(np.isfinite(tensor.astype(np.float64)).all())


def _by_name(partition: Partition, reasons: Mapping[int, str]) -> dict[str, str]:
    """The reasons by the names under which runs hand tensors out: those of heads, arguments and states."""
    graph = partition.graph
    heads = partition.source.native.list_outputs()[: len(graph.outputs)]
    named = {name: reasons[t] for name, t in zip(heads, graph.outputs, strict=True) if t in reasons}
    named |= {graph.tensors[of].name: reasons[t] for of, t in graph.gradients.items() if t in reasons}
    return named | {graph.tensors[t].name: reasons[t] for t in graph.written_in_place if t in reasons}
