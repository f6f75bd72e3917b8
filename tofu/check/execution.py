"""The checker of emitted graphs (design section 7): run on every graph in the tests, and under TOFU_CHECK=1.

Rules: regions lie inside their sources; each output cell is written once (cells of no piece are filled); every edge between
workers enters a fetch; every read is ordered after its write by a data dependency; there is no cycle; outputs have the sizes of
the plan's shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Any

from tofu import _mxnet
from tofu.errors import InternalError

Box = tuple[tuple[int, int], ...]
GROUP_KEY = "__ctx_group__"


def check_execution(
    execution_symbol: Any, output_shapes: Sequence[tuple[int, ...]], variable_shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise InternalError with every rule that the execution graph breaks.

    Parameters
    ----------
    execution_symbol
        The partitioned symbol.
    output_shapes
        The shapes that the plan predicts for its outputs.
    variable_shapes
        Name -> shape of each shard that feeds it.
    """
    handle = execution_symbol.handle.value
    nodes = _mxnet.nodes(handle)
    fetches = _mxnet.fetches(handle)
    problems = [problem for fetch in fetches for problem in _check_fetch(fetch)]
    problems += _check_edges(nodes, {fetch["name"] for fetch in fetches})
    problems += _check_shapes(handle, nodes, output_shapes, variable_shapes)
    if problems:
        shown = "\n".join(f"  - {problem}" for problem in problems[:20])
        raise InternalError(f"The execution graph breaks {len(problems)} rules:\n{shown}")


def _check_fetch(fetch: Mapping[str, Any]) -> list[str]:
    """Sources inside their shards, pieces inside the region, no cell written twice."""
    problems = []
    shape = tuple(fetch["shape"])
    boxes: list[Box] = []
    for begin, extent, sources in fetch["pieces"]:
        box = tuple((b, b + e) for b, e in zip(begin, extent, strict=True))
        boxes.append(box)
        if any(b < 0 or e > limit or b >= e for (b, e), limit in zip(box, shape, strict=True)):
            problems.append(f"{fetch['name']}: the piece {box} is empty or leaves the region of shape {shape}")
        for source, source_begin in sources:
            producer, _, _, source_shape = fetch["inputs"][source]
            ends = [b + e for b, e in zip(source_begin, extent, strict=True)]
            inside = all(b >= 0 and e <= limit for b, e, limit in zip(source_begin, ends, source_shape, strict=True))
            if source_shape is not None and not inside:
                problems.append(
                    f"{fetch['name']}: it reads {list(zip(source_begin, ends, strict=True))} of {producer}, whose shape is {source_shape}"
                )
    for one, other in combinations(boxes, 2):
        if all(max(a[0], b[0]) < min(a[1], b[1]) for a, b in zip(one, other, strict=True)):
            problems.append(f"{fetch['name']}: cells are written twice, by the pieces {one} and {other}")
    return problems


def _check_edges(nodes: Sequence[Mapping[str, Any]], fetches: set[str]) -> list[str]:
    """Workers meet in fetches alone, and each node reads what stands before it."""
    problems = []
    for node in nodes:
        group = node["attrs"].get(GROUP_KEY)
        if group is None:
            problems.append(f"{node['name']} belongs to no worker")
        for source, _ in node["inputs"]:
            if source >= node["id"]:
                problems.append(f"{node['name']} reads {nodes[source]['name']}, which runs after it")
            if node["name"] not in fetches and nodes[source]["attrs"].get(GROUP_KEY) != group:
                problems.append(
                    f"{node['name']} ({group}) reads {nodes[source]['name']} of another worker without a fetch"
                )
        if any(source >= node["id"] for source in node["control_deps"]):
            problems.append(f"{node['name']} waits for a node that runs after it")
    return problems


def _check_shapes(
    handle: int,
    nodes: Sequence[Mapping[str, Any]],
    output_shapes: Sequence[tuple[int, ...]],
    variable_shapes: Mapping[str, tuple[int, ...]],
) -> list[str]:
    """Shapes inferred by MXNet through the whole graph are those that the plan predicts."""
    shapes, _ = _mxnet.infer(handle, dict(variable_shapes), {})
    problems = []
    # The outputs after these keep nodes running that nobody reads; the plan says nothing of them.
    for (node, index), expected in zip(_mxnet.outputs(handle), output_shapes, strict=False):
        found = shapes[nodes[node]["entry"] + index]
        if found is None or tuple(found) != tuple(expected):
            problems.append(
                f"{nodes[node]['name']}: output {index} has shape {found}, the plan says {expected} ({prod(expected)} elements)"
            )
    return problems
