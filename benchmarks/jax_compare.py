"""Communication of a JAX step with Tofu's plans and with hand-made plans (*peers*), counted in the programs that XLA compiles.

\b
    python -m benchmarks.jax_compare --workers 8 [--model MLP ...]
    python -m benchmarks.jax_compare --model "24-layer Transformer" --model ResNet-50
    TPU_LIBRARY_PATH=.../libtpu.so python -m benchmarks.jax_compare --platform tpu [--model MLP ...]
    python -m benchmarks.jax_compare --platform gpu [--model MLP ...]

Steps are compiled from shapes for virtual devices of the CPU, and not run. `python -m tofu compare` prints the same
table, without Megatron's mixes of data and tensor parallelism. The benchmark fails if a program transfers more bytes
than its plan counts. It also fails if a peer transfers fewer bytes than all of Tofu's plans that need no more memory
than the peer. Two kinds of peers do not count: peers that need less memory than the plan that splits everything, and
peers whose devices all compute the same.

Steps for TPUs and H100s are compiled ahead of time without such a device, by the package libtpu of JAX's version and by
jax[cuda13]. The table then also shows the bytes transferred during computation. On TPUs, XLA's auto-sharding is a peer,
if it ends within --auto-seconds.
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

from tests.shared.campaigns import choose_names

if TYPE_CHECKING:  # the options set the number of devices, before JAX is used
    from tofu.jax.compare.comparison import PlanComparison, PlanRow

MOST_HLO_OVER_PLAN = 1.02
MOST_OF_BEST_PEER = 1.0
ASKED_OF_BEST_PEER = 0.95
TPU_SLICES = {4: "v5e:2x2", 8: "v5e:2x4", 16: "v5e:4x4", 32: "v5e:4x8", 64: "v5e:8x8"}
"""Number of devices -> XLA's name of a TPU slice."""
H100 = Path(__file__).parent / "jax_peers" / "h100.pbtxt"
"""XLA's description of an H100 (`--xla_dump_to`, CUDA 13)."""
XLA_CHOOSES = "XLA's auto-sharding"


def compare(name: str, workers: int, platform: str, search_seconds: float, auto_seconds: float) -> list[PlanRow]:
    from benchmarks.jax_peers.peers import list_peers
    from tofu.jax.compare.comparison import PlanRow

    rows = []
    work = count_work(name, workers, search_seconds) if platform == "gpu" else {}
    for row in make_comparison(name, workers, platform, search_seconds).run(list_peers(workers)):
        print(f"{name}, {row.name}: compiled in {row.seconds:.0f} s", file=sys.stderr, flush=True)
        rows.append(replace(row, work=work.get(row.name, row.work)))
    if platform == "tpu" and auto_seconds:
        # In a separate process, because it cannot be interrupted.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            result = pool.apply_async(compare_with_xla, (name, workers, search_seconds))
            try:
                rows += result.get(auto_seconds)
                pool.close()
                pool.join()  # a signal would make XLA print a stack trace
            except multiprocessing.TimeoutError:
                rows.append(PlanRow(XLA_CHOOSES, None, -1, -1, 0.0, 0.0, f"not compiled in {auto_seconds:.0f} s"))
    return rows


def count_work(name: str, workers: int, search_seconds: float) -> dict[str, float]:
    """Return {peer: work of all devices}. Steps are compiled for CPUs, because XLA does not count work for absent GPUs."""
    from benchmarks.jax_peers.peers import list_peers

    comparison = make_comparison(name, workers, "cpu", search_seconds)
    rows = [comparison.attempt(named, partial(comparison.peer, peer)) for named, peer in list_peers(workers).items()]
    return {row.name: row.work for row in rows}


def compare_with_xla(name: str, workers: int, search_seconds: float) -> list[PlanRow]:
    set_environment(workers, "tpu")
    from benchmarks.jax_peers.peers import choose_by_xla

    comparison = make_comparison(name, workers, "tpu", search_seconds)
    found = comparison.attempt(XLA_CHOOSES, lambda name: comparison.peer(choose_by_xla(comparison.step), name))
    return [found, *comparison.plan_within([found])]


def make_comparison(name: str, workers: int, platform: str, search_seconds: float) -> PlanComparison:
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
    import jax

    if platform == "cpu":
        return list(jax.devices()[:workers])
    from jax.experimental import topologies

    if platform == "gpu":  # one process on one host
        settings = {"platform": "cuda", "target_config": H100.read_text(), "topology": f"1x1x{workers}"}
    elif workers in TPU_SLICES:
        settings = {"platform": "tpu", "topology_name": TPU_SLICES[workers]}
    else:
        raise click.BadParameter(f"there are slices of {', '.join(map(str, TPU_SLICES))} TPUs")
    devices: Sequence[Any] = topologies.get_topology_desc(**settings).devices
    return devices


def set_environment(workers: int, platform: str) -> None:
    """Give JAX virtual devices. Call this before JAX is used."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={workers}"
    if platform != "tpu":
        return
    os.environ |= {
        "JAX_DEFAULT_MATMUL_PRECISION": "float32",  # otherwise XLA transfers half precision
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # auto-sharding runs in a separate process
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_ACCELERATOR_TYPE": f"v5litepod-{workers}",
    }


def show(name: str, rows: list[PlanRow], console: Console) -> bool:
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
        message = f"{peer.name}: the best plan within its memory moves {ratio:.3f} of what it moves"
        if ratio > MOST_OF_BEST_PEER:
            faults.append(message)
        elif ratio > ASKED_OF_BEST_PEER:
            console.print(f"  {message}, above {ASKED_OF_BEST_PEER}")
    for fault in faults:
        console.print(f"  [red]{fault}[/]")
    return not faults


@click.command(help=__doc__)
@click.option("--workers", default=8, show_default=True)
@click.option("--model", "models", multiple=True, help="By default, all except those of real sizes.")
@click.option("--platform", type=click.Choice(("cpu", "gpu", "tpu")), default="cpu", show_default=True)
@click.option("--search-seconds", default=10.0, show_default=True)
@click.option("--auto-seconds", default=600.0, show_default=True, help="Limit of XLA's auto-sharding; 0 leaves it out.")
def main(workers: int, models: tuple[str, ...], platform: str, search_seconds: float, auto_seconds: float) -> None:
    set_environment(workers, platform)
    from tests.models.jax.language import MODELS, REAL_MODELS

    chosen = [each for name in models or MODELS for each in choose_names(name, {**MODELS, **REAL_MODELS}, ";")]
    console = Console(width=None if sys.stdout.isatty() else 170)
    good = []
    for name in chosen:
        rows = compare(name, workers, platform, search_seconds, auto_seconds)
        good.append(show(f"{name}, {workers} devices", rows, console))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
