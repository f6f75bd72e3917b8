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
from tofu.plan import DimensionChoice
from tofu.planning.progress import show_progress
from tofu.report.alternatives import choose_layers, find_some_alternatives, format_change
from tofu.report.data_parallel import describe_data_parallel, plan_data_parallel
from tofu.report.durations import describe_durations
from tofu.report.layers import LayerRow, explain_axes, list_layers
from tofu.report.memory import group_workers
from tofu.report.plan_table import describe_unmeasured, format_choice, format_shape
from tofu.search.algorithms import ALGORITHMS
from tofu.search.cost import evaluate

EXPLAINED_LAYERS = 8
MOST_COLOURS = 64  # more workers cannot be distinguished by colour
WIDTH, HEIGHT, GAP = 64.0, 32.0, 1.5


def render_page(partition: Partition, title: str) -> str:
    """Return the page as HTML. It shows other splits for the layers that transfer most."""
    environment = Environment(
        loader=PackageLoader("tofu", "report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(bytes=format_bytes, choice=format_choice, shape=format_shape, line=shorten_line)
    return environment.get_template("plan_page.html").render(_describe(partition, title))


def _describe(partition: Partition, title: str) -> dict[str, Any]:
    plan, layers = partition.plan, list_layers(partition)
    alternatives, left_out = find_some_alternatives(partition, choose_layers(layers, EXPLAINED_LAYERS))
    axes = explain_axes(partition, layers)
    return {
        "title": title,
        "plan": plan,
        "inputs": list_some([f"{name} {format_shape(shape)}" for name, shape in plan.inputs.items()]),
        "workers": format_count(plan.workers, "worker"),
        "factors": " x ".join(map(str, plan.factors)),
        "run": "training step" if partition.graph.is_training else "run forward",
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
        "has_updates": bool(partition.graph.updated),
        "held": "memory" + (", with a momentum" if partition.graph.updated else ""),
        "axes": f"Axes in the results: {axes}." if axes else "",
        "layers": layers,
        "alternatives": alternatives,
        "left_out": left_out,
        "shares": _find_shares(layers),
        "drawings": _draw(layers, plan.factors),
    }


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
            with show_progress(f"planning {name}"):
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


def _find_shares(layers: Sequence[LayerRow]) -> dict[str, list[tuple[str, float]]]:
    most_moved_bytes = max((layer.moved_bytes for layer in layers), default=0)
    shares: dict[str, list[tuple[str, float]]] = {layer.name: [] for layer in layers}
    for layer in layers:
        for phase in Phase:
            if count := sum(transfer.num_bytes for transfer in layer.transfers if transfer.phase is phase):
                shares[layer.name].append((phase.name.lower(), count / most_moved_bytes))
    return shares


def _draw(layers: Sequence[LayerRow], factors: Sequence[int]) -> dict[DimensionChoice, dict[str, Any]]:
    # In pictures of split tensors, dimension 0 runs downwards, and all others from left to right.
    if prod(factors) > MOST_COLOURS:
        return {}
    tensors = (tensor for layer in layers for tensor in (layer.result, layer.largest_parameter))
    layouts = dict.fromkeys(tensor.layout for tensor in tensors if tensor is not None)
    return {layout: {"name": f"cut{n}", "cells": _draw_cells(layout, factors)} for n, layout in enumerate(layouts)}


def _draw_cells(layout: DimensionChoice, factors: Sequence[int]) -> list[dict[str, Any]]:
    rounds = list(zip(factors, layout, strict=True))
    row_count = prod(factor for factor, dimension in rounds if dimension == 0)
    column_count = prod(factor for factor, dimension in rounds if dimension not in (0, None))
    workers_by_part: dict[tuple[int, int], list[int]] = {}
    for worker, digits in enumerate(product(*map(range, factors))):
        workers_by_part.setdefault(_find_row_and_column(digits, layout, factors), []).append(worker)
    height, width = HEIGHT / row_count, WIDTH / column_count
    return [
        {
            "x": f"{column * width + stripe * (width - GAP) / len(workers):.2f}",
            "y": f"{row * height:.2f}",
            "width": f"{(width - GAP) / len(workers):.2f}",
            "height": f"{height - GAP if row_count > 1 else height:.2f}",
            "colour": f"hsl({360 * worker / prod(factors):.0f} 55% 58%)",
        }
        for (row, column), workers in workers_by_part.items()
        for stripe, worker in enumerate(workers)
    ]


def _find_row_and_column(digits: Sequence[int], layout: DimensionChoice, factors: Sequence[int]) -> tuple[int, int]:
    # Earlier rounds split into larger parts.
    part, dimensions = [0, 0], sorted({dimension for dimension in layout if dimension is not None})
    for dimension in dimensions:
        side = 0 if dimension == 0 else 1
        for factor, digit, split_dimension in zip(factors, digits, layout, strict=True):
            if split_dimension == dimension:
                part[side] = part[side] * factor + digit
    return part[0], part[1]
