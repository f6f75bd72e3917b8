"""Check each execution graph before MXNet binds it. TOFU_CHECK=0 disables these checks.

A *fetch* is a node that assembles a region on one worker from the shards of several workers. The rules are:

- Fetches (`csrc/nnvm/memory/check_fetches.h`): a fetch reads only elements that the shards contain, and writes each
  element of the region once. A worker reads another worker's tensors only through fetches.
- Lifetimes (`csrc/nnvm/memory/check_lifetimes.h`): a node reads only tensors that are complete and not yet overwritten.
- Outputs have the shapes that the plan computes for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from tofu import _mxnet
from tofu.errors import InternalError

Shape = tuple[int, ...]


def check_execution(planned: _mxnet.PlannedGraph, output_shapes: Sequence[Shape]) -> None:
    """Raise InternalError with a list of mistakes if an execution graph breaks a rule of this module.

    Parameters
    ----------
    planned
        The execution graph, with the buffers that MXNet will allocate for it.
    output_shapes
        Expected shapes of the graph's first outputs.
    """
    problems = [*planned.problems(), *_compare_outputs(planned.outputs(), output_shapes)]
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems[:20])
        raise InternalError(f"The execution graph breaks {len(problems)} rules:\n{listed}")


def _compare_outputs(outputs: Sequence[tuple[str, Shape | None]], planned_shapes: Sequence[Shape]) -> Iterator[str]:
    # Further outputs are not in the plan. They only ensure that nodes without readers run.
    for (name, shape), planned in zip(outputs, planned_shapes, strict=False):
        if shape != tuple(planned):
            yield f"{name}: an output has shape {shape}, the plan says {planned} ({prod(planned)} elements)"


def check_memory(found: Sequence[int], expected: Sequence[int]) -> None:
    """Raise InternalError unless the bytes of each worker are equal in `found` and `expected`."""
    wrong = [worker for worker, counts in enumerate(zip(found, expected, strict=True)) if counts[0] != counts[1]]
    if wrong:
        raise InternalError(
            f"Worker {wrong[0]} needs {found[wrong[0]]} bytes in the execution graph, its plan counts "
            f"{expected[wrong[0]]}. {len(wrong)} of {len(found)} workers differ."
        )


def count_remote_bytes(execution_symbol: Any) -> int:
    """Return the bytes that workers read from each other when `execution_symbol` runs once."""
    return _mxnet.PlannedGraph(execution_symbol.handle.value, {}, {}).remote_bytes()


def check_traffic(planned: _mxnet.PlannedGraph, communication_bytes: int) -> None:
    """Raise InternalError unless the workers read exactly `communication_bytes` from each other."""
    remote_bytes = planned.remote_bytes()
    if remote_bytes != communication_bytes:
        raise InternalError(
            f"The execution graph reads {remote_bytes} bytes from other workers, its plan counts {communication_bytes}."
        )
