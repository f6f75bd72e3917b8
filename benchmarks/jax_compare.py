"""Bytes that a JAX step moves under Tofu's plans and under those that people make by hand, counted from optimised HLO.

    python -m benchmarks.jax_compare --workers 8 [--model MLP ...]
    python -m benchmarks.jax_compare --model "24-layer Transformer" --model ResNet-50
    TPU_LIBRARY_PATH=.../libtpu.so python -m benchmarks.jax_compare --platform tpu [--model MLP ...]
    python -m benchmarks.jax_compare --platform gpu [--model MLP ...]

From shapes alone, compiled for virtual devices of the CPU and not run: what `python -m tofu compare` does for any step, with Megatron's
mixes among the peers. The benchmark fails where HLO moves more than its plan counts, and where a peer moves less than the plans within its
memory; peers that hold less than the plan that splits everything, and those that have every device compute the same, are none.

For TPUs steps are compiled ahead of time, without one, by the package libtpu of JAX's version; for H100s, without one, by jax[cuda13].
Bytes that move while devices compute are told there. XLA's auto-sharding, which it has for TPUs alone, is a peer there where it comes to
an end within --auto-seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

if TYPE_CHECKING:  # JAX looks at its devices when it is first used, and the options say how many there are
    from tofu.jax.compare.comparison import PlanComparison, PlanRow

MOST_HLO_OVER_PLAN = 1.02
MOST_OF_BEST_PEER = 1.0
ASKED_OF_BEST_PEER = 0.95
STATED_WORKERS = 8
COMPARED_BY_DEFAULT = ("MLP", "Transformer block", "LSTM 2x4", "LSTM 2x100, scan", "ResNet", "12-layer Transformer")
STATED_MODELS = {  # by platform and devices
    ("cpu", STATED_WORKERS): COMPARED_BY_DEFAULT,
    ("cpu", 64): ("MLP", "Transformer block", "LSTM 2x4", "ResNet"),
    ("gpu", STATED_WORKERS): COMPARED_BY_DEFAULT,
    ("tpu", STATED_WORKERS): ("MLP", "Transformer block", "LSTM 2x4"),
}
STATED_MB = {  # by docs/jax.md; None for what does not apply
    ("cpu", STATED_WORKERS): {
        "Tofu, everything split": (31.3, 26.0, 13.1, 213, 5.86, 5859),
        "Tofu, replicas free": (26.1, 26.0, 11.2, 59.2, 4.52, 5859),
        "data parallel": (239, 73.4, 236, 5884, 4.55, 9084),
        "FSDP / ZeRO-3": (384, 62.6, 20.9, 800, 7.65, 14764),
        "best Megatron": (101, 35.7, 20.1, 709, None, 18793),
    },
    ("cpu", 64): {
        "Tofu, everything split": (116, 91.0, 69.2, 29.0),
        "Tofu, replicas free": (104, 91.0, 43.2, 24.9),
        "data parallel": (2149, None, 2126, None),
        "FSDP / ZeRO-3": (3429, None, 138.6, None),
        "best Megatron": (373, 132, 104.2, None),
    },
    ("gpu", STATED_WORKERS): {
        "Tofu, everything split": (31.3, 25.0, 12.9, 213, 5.86, 5858),
        "Tofu, replicas free": (26.1, 25.0, 11.2, 59.2, 4.52, 5849),
        "data parallel": (239, 73.4, 59.8, 59.8, 4.55, 9084),
        "FSDP / ZeRO-3": (265, 44.2, 14.6, 662, 6.10, 11040),
        "best Megatron": (58.9, 29.4, 13.5, 157, None, 13961),
    },
    ("tpu", STATED_WORKERS): {
        "Tofu, everything split": (31.5, 25.8, 11.8),
        "Tofu, replicas free": (26.1, 25.8, 11.2),
        "data parallel": (239, 73.4, 59.8),
        "FSDP / ZeRO-3": (384, 71.7, 24.7),
        "best Megatron": (78.5, 29.4, 20.2),
    },
}
TPU_SLICES = {4: "v5e:2x2", 8: "v5e:2x4", 16: "v5e:4x4", 32: "v5e:4x8", 64: "v5e:8x8"}
"""The number of devices -> what XLA calls as many TPUs that are linked."""
H100 = Path(__file__).parent / "jax_peers" / "h100.pbtxt"
"""An H100 as XLA describes it (`--xla_dump_to`, CUDA 13)."""
XLA_CHOOSES = "XLA's auto-sharding"


def compare(name: str, workers: int, platform: str, search_seconds: float, auto_seconds: float) -> list[PlanRow]:
    """The rows of a model."""
    from benchmarks.jax_peers.peers import list_peers
    from tofu.jax.compare.comparison import PlanRow

    rows = []
    told = count_work(name, workers, search_seconds) if platform == "gpu" else {}
    for row in make_comparison(name, workers, platform, search_seconds).run(list_peers(workers)):
        print(f"{name}, {row.name}: compiled in {row.seconds:.0f} s", file=sys.stderr, flush=True)
        rows.append(replace(row, work=told.get(row.name, row.work)))
    if platform == "tpu" and auto_seconds:
        # In a process of its own, for it cannot be interrupted.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            asked = pool.apply_async(compare_with_xla, (name, workers, search_seconds))
            try:
                rows += asked.get(auto_seconds)
                pool.close()
                pool.join()  # else it is ended by a signal, of which XLA says much
            except multiprocessing.TimeoutError:
                rows.append(PlanRow(XLA_CHOOSES, None, -1, -1, 0.0, 0.0, f"not compiled in {auto_seconds:.0f} s"))
    return rows


def count_work(name: str, workers: int, search_seconds: float) -> dict[str, float]:
    """Peer -> the work that all devices do, of the step compiled for CPUs: XLA does not count it ahead of time for GPUs."""
    from benchmarks.jax_peers.peers import list_peers

    comparison = make_comparison(name, workers, "cpu", search_seconds)
    rows = [comparison.attempt(named, partial(comparison.peer, peer)) for named, peer in list_peers(workers).items()]
    return {row.name: row.work for row in rows}


def compare_with_xla(name: str, workers: int, search_seconds: float) -> list[PlanRow]:
    """What XLA chooses, and Tofu's plan within the memory of that."""
    set_environment(workers, "tpu")
    from benchmarks.jax_peers.peers import choose_by_xla

    comparison = make_comparison(name, workers, "tpu", search_seconds)
    found = comparison.attempt(XLA_CHOOSES, lambda name: comparison.peer(choose_by_xla(comparison.step), name))
    return [found, *comparison.plan_within([found])]


def make_comparison(name: str, workers: int, platform: str, search_seconds: float) -> PlanComparison:
    """A model on the devices of a platform."""
    from tests.models.jax.language import MODELS, REAL_MODELS
    from tofu.jax.compare.comparison import PlanComparison
    from tofu.jax.compare.peers import split_arguments
    from tofu.jax.frontend.read_step import read_step
    from tofu.jax.planning import read_settings

    model = {**MODELS, **REAL_MODELS}[name]()
    arguments = split_arguments((model.state, model.data), model.batch)
    source = read_step(model.step, arguments.all)
    settings = read_settings(workers, {"search_seconds": search_seconds, "cache": False})
    return PlanComparison(model.step, source, arguments, settings, list_devices(workers, platform))


def list_devices(workers: int, platform: str) -> Sequence[Any]:
    """The devices that steps are compiled for."""
    import jax

    if platform == "cpu":
        return jax.devices()[:workers]
    from jax.experimental import topologies

    if platform == "gpu":  # of one process on one host
        settings = {"target_config": H100.read_text(), "topology": f"1x1x{workers}"}
        return topologies.get_topology_desc(platform="cuda", **settings).devices  # type: ignore[no-any-return]
    if workers not in TPU_SLICES:
        raise click.BadParameter(f"there are slices of {', '.join(map(str, TPU_SLICES))} TPUs")
    return topologies.get_topology_desc(platform="tpu", topology_name=TPU_SLICES[workers]).devices  # type: ignore[no-any-return]


def set_environment(workers: int, platform: str) -> None:
    """What JAX looks at when it is first used: virtual devices, and no TPU looked for on this machine or asked of a service."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={workers}"
    if platform != "tpu":
        return
    os.environ |= {
        "JAX_DEFAULT_MATMUL_PRECISION": "float32",  # or XLA halves numbers before they move
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # XLA chooses in a process of its own
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_ACCELERATOR_TYPE": f"v5litepod-{workers}",
    }


def show(name: str, rows: list[PlanRow], console: Console) -> bool:
    """Prints a table; whether everything is as it should be."""
    from tofu.jax.compare.comparison import print_rows

    print_rows(console, name, rows)
    faults = [
        f"{row.name}: HLO moves {row.moved_bytes / row.planned_bytes:.3f} of the plan"
        for row in rows
        if row.planned_bytes and row.moved_bytes > MOST_HLO_OVER_PLAN * row.planned_bytes
    ]
    plans = [row for row in rows if row.planned_bytes is not None]
    for peer in (row for row in rows if row.is_peer):
        within = [row for row in plans if row.argument_bytes <= peer.argument_bytes]
        if not within:
            continue
        ratio = min(row.moved_bytes for row in within) / max(peer.moved_bytes, 1)
        said = f"{peer.name}: the best plan within its memory moves {ratio:.3f} of what it moves"
        if ratio > MOST_OF_BEST_PEER:
            faults.append(said)
        elif ratio > ASKED_OF_BEST_PEER:
            console.print(f"  {said}, above {ASKED_OF_BEST_PEER}")
    for fault in faults:
        console.print(f"  [red]{fault}[/]")
    return not faults


def check_stated(name: str, setting: tuple[str, int], rows: list[PlanRow], console: Console) -> bool:
    """Whether the figures of docs/jax.md are those that were measured."""
    moved = {row.name: row.moved_bytes for row in rows}
    megatron = [row.moved_bytes for row in rows if row.name.startswith("Megatron") and row.is_peer]
    moved["best Megatron"] = min(megatron, default=-1)
    wrong = []
    for label, figures in STATED_MB[setting].items():
        stated = figures[STATED_MODELS[setting].index(name)]
        if stated is not None and abs(moved[label] / 1e6 - stated) > 0.005 * stated:
            wrong.append(f"{label}: {moved[label] / 1e6:.4g} MB, and docs/jax.md says {stated}")
    for one in wrong:
        console.print(f"  [red]{one}[/]")
    return not wrong


@click.command(help=__doc__)
@click.option("--workers", default=8, show_default=True)
@click.option("--model", "models", multiple=True, help="By default all but those of real sizes.")
@click.option("--platform", type=click.Choice(("cpu", "gpu", "tpu")), default="cpu", show_default=True)
@click.option("--search-seconds", default=10.0, show_default=True)
@click.option("--auto-seconds", default=600.0, show_default=True, help="For XLA's auto-sharding; 0 leaves it out.")
def main(workers: int, models: tuple[str, ...], platform: str, search_seconds: float, auto_seconds: float) -> None:
    """All models."""
    set_environment(workers, platform)
    from tests.models.jax.language import MODELS, REAL_MODELS

    if unknown := set(models).difference(MODELS, REAL_MODELS):
        raise click.BadParameter(f"there is no {', '.join(unknown)}; models are {', '.join({**MODELS, **REAL_MODELS})}")

    console = Console(width=None if sys.stdout.isatty() else 170)
    good = []
    for name in models or MODELS:
        rows = compare(name, workers, platform, search_seconds, auto_seconds)
        good.append(show(f"{name}, {workers} devices", rows, console))
        if name in STATED_MODELS.get((platform, workers), ()):
            good.append(check_stated(name, (platform, workers), rows, console))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
