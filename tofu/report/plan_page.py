"""Write the HTML page of a plan: how each tensor is split, what each layer transfers, and what other splits cost.

The page is one file without external resources.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

from jinja2 import Environment, PackageLoader

from tofu.errors import TofuError
from tofu.formatting import format_bytes, format_count, format_seconds, list_some, shorten_line
from tofu.graph import Phase
from tofu.pipeline import Partition
from tofu.plan import DimensionChoice, Plan
from tofu.planning.progress import track_progress
from tofu.report.alternatives import choose_layers, find_alternatives, format_change
from tofu.report.data_parallel import describe_data_parallel, plan_data_parallel
from tofu.report.durations import describe_durations
from tofu.report.layers import LayerRow, TensorLayout, explain_axes, list_layers
from tofu.report.memory import group_workers
from tofu.report.plan_table import describe_unmeasured, format_choice, format_shape
from tofu.search.algorithms import ALGORITHMS
from tofu.search.cost import evaluate

EXPLAINED_LAYERS = 8
MOST_COLOURS = 64  # more workers cannot be distinguished by colour
WIDTH, HEIGHT, GAP = 64.0, 32.0, 1.5
MOVES = {False: "is read", True: "is gathered or reduced"}


def render_page(partition: Partition, title: str) -> str:
    """Return the page as HTML. For each of the layers that transfer most, a short search finds the cost of other splits."""
    environment = Environment(
        loader=PackageLoader("tofu", "report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("plan_page.html").render(_describe(partition, title))


def _describe(partition: Partition, title: str) -> dict[str, Any]:
    plan, layers = partition.plan, list_layers(partition)
    drawings = _Drawings(plan.factors)
    explained_names = {layer.name for layer in choose_layers(layers, EXPLAINED_LAYERS)}
    most_moved_bytes = max((layer.moved_bytes for layer in layers), default=0)
    described_layers = [_describe_layer(layer, most_moved_bytes, drawings) for layer in layers]
    explained_layers = [layer for layer in described_layers if layer["name"] in explained_names]
    for layer in track_progress(explained_layers, "searching alternatives"):
        layer["alternatives"] = [
            {
                "axis": alternative.axis,
                "meaning": alternative.meaning,
                "moved": alternative.moved_text,
                "change": alternative.change_text,
                "remark": alternative.remark,
            }
            for alternative in find_alternatives(partition, layer["operator"])
        ]
    axes = explain_axes(partition, layers)
    return {
        "title": title,
        "plan": plan,
        "inputs": _describe_inputs(plan),
        "workers": format_count(plan.workers, "worker"),
        "factors": " x ".join(map(str, plan.factors)),
        "run": "training step" if partition.graph.is_training else "run forward",
        "moved": format_bytes(plan.communication_bytes),
        "change": "more" if plan.communication_seconds is None else "more time",
        "facts": _list_facts(partition),
        "compared": _compare(partition),
        "steps": _bars(
            [(f"round {n + 1}, {plan.factors[n]} parts", count, "") for n, count in enumerate(plan.step_bytes)]
        ),
        "measured": plan.measured.capitalize(),
        "unmeasured": describe_unmeasured(partition.task.engine.backend),
        "data_parallel": describe_data_parallel(partition),
        "memory": _describe_memory(partition),
        "durations": describe_durations(partition),
        "held": "memory" + (", with a momentum" if partition.graph.updated else ""),
        "axes": f"Axes in the results: {axes}." if axes else "",
        "undescribed": [
            {
                "name": name,
                "line": shorten_line(plan.lines.get(name, "")),
                "reason": cost.reason,
                "work": f"{cost.work_share:.1%}",
                "fetched": format_bytes(cost.fetched_bytes),
            }
            for name, cost in plan.undescribed.items()
        ],
        "explained": explained_names,
        "has_lines": any(layer["line"] for layer in described_layers),
        "layers": described_layers,
        "drawings": drawings.made,
    }


def _describe_inputs(plan: Plan) -> str:
    return list_some([f"{name} {format_shape(shape)}" for name, shape in plan.inputs.items()])


def _list_facts(partition: Partition) -> list[tuple[str, str]]:
    plan = partition.plan
    facts = [
        ("moves", format_bytes(plan.communication_bytes)),
        (f"{plan.measured} per worker, at most", format_bytes(max(plan.worker_bytes))),
        (f"{plan.algorithm} search", plan.optimality),
        ("found in", format_seconds(plan.search_seconds)),
        ("operators", str(len(partition.graph.operators))),
    ]
    if plan.communication_seconds is not None:
        facts.insert(1, ("on this interconnect", format_seconds(plan.communication_seconds)))
    return facts


def _compare(partition: Partition) -> list[dict[str, Any]]:
    moved_bytes = partition.plan.communication_bytes
    rows = [("this plan", moved_bytes, "")]
    for name, make_choices, remark in (
        ("the recursion alone", lambda problem: ALGORITHMS["recursive"].solve(problem).choices, ""),
        ("data parallelism", plan_data_parallel, "parameters replicated on every worker"),
    ):
        try:
            compared_bytes = evaluate(make_choices(partition.searched.problem)).total_bytes
        except TofuError:
            continue  # does not apply to this model
        share = format_change((compared_bytes - moved_bytes) / moved_bytes) if moved_bytes else ""
        rows.append((name, compared_bytes, ", ".join(filter(None, (share, remark)))))
    return _bars(rows)


def _describe_memory(partition: Partition) -> list[dict[str, Any]]:
    one_device_bytes, worker_bytes = partition.measure_whole(), partition.plan.worker_bytes
    rows = [("one device", one_device_bytes, "")]
    for name, count in group_workers(worker_bytes):
        rows.append((name, count, f"{count * len(worker_bytes) / one_device_bytes:.0%} of an even share"))
    return _bars(rows)


def _bars(rows: Sequence[tuple[str, int, str]]) -> list[dict[str, Any]]:
    most = max((count for _, count, _ in rows), default=0)
    return [
        {"name": name, "value": format_bytes(count), "share": max(count, 0) / most if most else 0, "remark": remark}
        for name, count, remark in rows
    ]


def _describe_layer(layer: LayerRow, most_moved_bytes: int, drawings: _Drawings) -> dict[str, Any]:
    largest_parameter = max(layer.parameters, key=lambda parameter: prod(parameter.shape), default=None)
    by_phase = {phase: sum(t.num_bytes for t in layer.transfers if t.phase is phase) for phase in Phase}
    return {
        "name": layer.name,
        "operator": layer.operator,
        "line": shorten_line(layer.line),
        "names": " ".join([layer.name, *(parameter.name for parameter in layer.parameters), layer.line]).rstrip(),
        "result": _describe_tensor(layer.result, drawings),
        "parameter": None if largest_parameter is None else _describe_tensor(largest_parameter, drawings),
        "parameters": [_describe_tensor(parameter, drawings) for parameter in layer.parameters],
        "forward": format_choice(layer.forward),
        "backward": "" if layer.backward is None else format_choice(layer.backward),
        "moved_bytes": layer.moved_bytes,
        "moved": format_bytes(layer.moved_bytes),
        "shares": [(phase.name.lower(), count / most_moved_bytes) for phase, count in by_phase.items() if count],
        "transfers": [
            {
                "phase": transfer.phase.name.lower(),
                "what": MOVES[transfer.is_result],
                "tensor": transfer.tensor,
                "moved": format_bytes(transfer.num_bytes),
            }
            for transfer in layer.transfers
        ],
    }


def _describe_tensor(tensor: TensorLayout, drawings: _Drawings) -> dict[str, str]:
    return {
        "name": tensor.name,
        "shape": format_shape(tensor.shape),
        "layout": format_choice(tensor.layout),
        "drawing": drawings.draw(tensor.layout),
    }


# In pictures of split tensors, dimension 0 runs downwards, and all others from left to right.
class _Drawings:
    def __init__(self, factors: Sequence[int]) -> None:
        self.factors = factors
        self.made: list[dict[str, Any]] = []
        self._names: dict[DimensionChoice, str] = {}

    def draw(self, layout: DimensionChoice) -> str:
        if prod(self.factors) > MOST_COLOURS:
            return ""
        if layout not in self._names:
            self._names[layout] = f"cut{len(self._names)}"
            self.made.append({"name": self._names[layout], "cells": self._draw_cells(layout)})
        return self._names[layout]

    def _draw_cells(self, layout: DimensionChoice) -> list[dict[str, Any]]:
        row_count = prod(factor for factor, dimension in zip(self.factors, layout, strict=True) if dimension == 0)
        column_count = prod(
            factor for factor, dimension in zip(self.factors, layout, strict=True) if dimension not in (0, None)
        )
        workers_by_part: dict[tuple[int, int], list[int]] = {}
        for worker, digits in enumerate(product(*map(range, self.factors))):
            workers_by_part.setdefault(self._find_row_and_column(digits, layout), []).append(worker)
        height, width = HEIGHT / row_count, WIDTH / column_count
        return [
            {
                "x": f"{column * width + stripe * (width - GAP) / len(workers):.2f}",
                "y": f"{row * height:.2f}",
                "width": f"{(width - GAP) / len(workers):.2f}",
                "height": f"{height - GAP if row_count > 1 else height:.2f}",
                "colour": f"hsl({360 * worker / prod(self.factors):.0f} 55% 58%)",
            }
            for (row, column), workers in workers_by_part.items()
            for stripe, worker in enumerate(workers)
        ]

    def _find_row_and_column(self, digits: Sequence[int], layout: DimensionChoice) -> tuple[int, int]:
        # Earlier rounds split into larger parts.
        part, dimensions = [0, 0], sorted({dimension for dimension in layout if dimension is not None})
        for dimension in dimensions:
            side = 0 if dimension == 0 else 1
            for factor, digit, split_dimension in zip(self.factors, digits, layout, strict=True):
                if split_dimension == dimension:
                    part[side] = part[side] * factor + digit
        return part[0], part[1]
