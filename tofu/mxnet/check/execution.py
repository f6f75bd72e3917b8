"""Checker of emitted graphs, run before every bind unless TOFU_CHECK=0, and on every graph in the tests.

- Fetches (`csrc/nnvm/memory/check_fetches.h`): regions are inside their sources; each output element is written once
  (elements of no piece are filled); every edge between workers enters a fetch.
- Lifetimes (`csrc/nnvm/memory/check_lifetimes.h`): whatever a node reads, from any worker, is complete in memory
  whenever the engine may run it. This includes sums accumulated in place and variables changed in place.
- Outputs have the sizes of the plan's shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from tofu import _mxnet
from tofu.errors import InternalError

Shape = tuple[int, ...]


def check_execution(planned: _mxnet.PlannedGraph, output_shapes: Sequence[Shape]) -> None:
    """Raise InternalError with the rules that an execution graph breaks.

    Parameters
    ----------
    planned
        The partitioned symbol, with the buffers that binding will allocate.
    output_shapes
        The plan's shapes of its first outputs.
    """
    problems = [*planned.problems(), *_compare_outputs(planned.outputs(), output_shapes)]
    if problems:
        shown = "\n".join(f"  - {problem}" for problem in problems[:20])
        raise InternalError(f"The execution graph breaks {len(problems)} rules:\n{shown}")


def _compare_outputs(found: Sequence[tuple[str, Shape | None]], expected: Sequence[Shape]) -> Iterator[str]:
    # Further outputs only keep nodes running that nobody reads; the plan does not contain them.
    for (name, shape), planned in zip(found, expected, strict=False):
        if shape != tuple(planned):
            yield f"{name}: an output has shape {shape}, the plan says {planned} ({prod(planned)} elements)"


def check_traffic(planned: _mxnet.PlannedGraph, communication_bytes: int) -> None:
    """Raise InternalError unless an execution graph reads exactly the bytes from other workers that its plan counts."""
    found = planned.remote_bytes()
    if found != communication_bytes:
        raise InternalError(
            f"The execution graph reads {found} bytes from other workers, its plan counts {communication_bytes}."
        )
