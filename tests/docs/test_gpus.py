"""Figures that docs/gpus.md states: those of the file that the command wrote."""

import json
import re
from pathlib import Path

from benchmarks import gpu

DOCS = Path(__file__).parent.parent.parent / "docs"
FIGURES = json.loads((DOCS / "gpus" / "h100.json").read_text())
TEXT = (DOCS / "gpus.md").read_text()


def row(start):
    """The cells of a row of the table, the first of which begins so."""
    (line,) = (line for line in TEXT.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def numbers(text):
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?(?:e-\d+)?", text)]


def test_figures_are_those_of_the_file():
    checks, fetches = FIGURES["checks"], {one["view"]: one["share"] for one in FIGURES["fetches"]}
    what, goal, found = row("parts of operators that do not")
    assert numbers(what) == [checks["parts"]]
    assert numbers(goal) == numbers(found) == [checks["failed"]]
    assert numbers(row("fetches that differ")[0])[0] == checks["fetches"]
    for which in gpu.SANITIZERS:
        assert re.search(r"\b0 (errors|hazards)", FIGURES[which])
    what, _, found = row("a fetch in one row")
    assert numbers(what)[-1] == round(FIGURES["copy"]["bandwidth"] / 1e12, 2)
    assert numbers(found) == [round(fetches["one row"], 2), round(fetches["rows of 4 KiB"], 2)]
    others = [round(fetches[view], 2) for view in ("rows of 512 B", "rows of 64 B", "sum of 8")]
    assert numbers(row("a fetch in rows of 512 B")[2]) == others


def test_goals_are_counted_as_in_the_file():
    speedups = [one["speedup"] for one in FIGURES["fetches beside CuPy"]["rows"]]
    fast = sum(speedup >= gpu.SPEEDUP_GOAL for speedup in speedups)
    assert numbers(row("fetches, over slices")[2]) == [
        round(min(speedups), 1),
        round(max(speedups), 1),
        fast,
        len(speedups),
        gpu.SPEEDUP_GOAL,
    ]
    parts = [one for one in FIGURES["parts"] if one["goal"] is not None]
    assert {one["goal"] for one in parts} == {gpu.PART_GOAL}
    for start, kind in (("kernels of parts in", ""), ("the same in single", "float32")):
        chosen = [one for one in parts if one["type"].startswith(kind)]
        reached = sum(one["share"] >= one["goal"] for one in chosen)
        assert numbers(row(start)[2]) == [reached, len(chosen)]


def test_steps_are_those_of_the_file():
    steps = FIGURES["steps of tofu.jax"]
    assert numbers(row("a step of `tofu.jax`")[2]) == [round(one["overhead"], 3) for one in steps["steps"]]
    assert numbers(row("its numbers in double")[2]) == [float(f"{max(steps['errors'].values()):.1e}")]


def test_what_misses_its_goal_is_named():
    """By the shares that the paragraph below the table gives."""
    (paragraph,) = (part for part in TEXT.split("\n\n") if part.startswith("Below the goal"))
    missed: dict[str, list[float]] = {}
    for one in FIGURES["parts"]:
        if one["goal"] is not None and one["share"] < one["goal"]:
            kind = next((name for name in ("softmax_sum", "take_backward") if name in one["kernel"]), "other sums")
            assert kind != "other sums" or one["type"] == "float16"
            missed.setdefault(kind, []).append(round(one["share"], 2))
    softmax, slowest = missed["softmax_sum"], min(one["speedup"] for one in FIGURES["fetches beside CuPy"]["rows"])
    shares = [min(softmax), max(softmax), *sorted(missed["take_backward"]), *sorted(missed["other sums"])]
    assert [number for number in numbers(paragraph) if number % 1] == [*shares, round(slowest, 1)]
