"""Train a step on one device and on several, and compare the numbers. All examples use this."""

from __future__ import annotations

import argparse
import sys
import time

import jax
import numpy as np

from tofu.jax import PartitionedStep

AGREEMENT = {"float32": 1e-3, "float64": 1e-10}
"""Largest relative difference of losses: sums run in another order, and training amplifies rounding."""


def read_options(description: str, steps: int) -> argparse.Namespace:
    """Parse --steps and --workers, and give JAX one CPU device for each worker."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=steps, help="training steps (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=4, help="devices of the CPU (default: %(default)s)")
    options = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", options.workers)
    return options


def train_side_by_side(step, parallel: PartitionedStep, state, batches) -> None:
    """Train `step` on one device and the partitioned step `parallel` on several, from the same state.

    Exit with status 1 if losses differ.
    """
    whole, plan, memory = jax.jit(step), parallel.plan, parallel.memory_report()
    held, of_all = memory.worker.arguments_bytes, memory.one_device.arguments_bytes
    print(f"The plan: {plan.workers} workers move {plan.communication_bytes:,} bytes in a step ({plan.optimality}).")
    print(f"Each holds {held:,} of the {of_all:,} bytes of state and batch.\n")
    print("step   one device   partitioned")
    placed, distances, started = parallel.place(state), [], time.perf_counter()
    for number, batch in enumerate(batches, 1):
        state, expected = whole(state, batch)
        placed, loss = parallel(placed, batch)
        distances.append(find_distance(loss, expected))
        print(f"{number:4}   {float(expected):10.6f}   {float(loss):11.6f}")
    worst = np.max(distances)  # NaN if any is NaN
    apart = np.max([*map(find_distance, jax.tree.leaves(placed), jax.tree.leaves(state))])
    print(f"\nLosses are at most {worst:.1e} of their size apart, the state {apart:.1e} of the size of its tensors.")
    print(f"{time.perf_counter() - started:.1f} seconds, compilation included.")
    most = AGREEMENT[loss.dtype.name]
    if not worst <= most:
        sys.exit(f"That is more than {most:.0e}, and a defect of Tofu: please report it.")


def find_distance(ours, theirs) -> float:
    """Return the largest difference of two tensors, relative to their largest number."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    return float(np.max(np.abs(ours - theirs)) / max(np.max(np.abs(theirs)), 1e-30))
