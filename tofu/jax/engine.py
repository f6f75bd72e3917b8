"""Connect the planner to JAX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

import numpy as np

from tdl_ops.jax import DESCRIPTIONS
from tofu.engine import Backend, Engine, FrontEnd, Measured, Source
from tofu.errors import UnsupportedError
from tofu.graph import Graph
from tofu.jax.backend.kernel_bytes import find_kernel_bytes
from tofu.jax.backend.spmd import SpmdProgram
from tofu.jax.memory import predict_one_device, predict_worker
from tofu.program import PlannedProgram, Program
from tofu.search import Choices
from tofu.search.geometry import count_shard_bytes
from tofu.search.native import COLLECTIVE_RULES, UNEVEN
from tofu.validation import show


class JaxFrontEnd(FrontEnd):
    """Interface between the planner and JAX's primitives (basic operations)."""

    descriptions = DESCRIPTIONS


@dataclass(frozen=True)
class JaxBackend(Backend):
    """Builder of JAX programs from plans.

    If `predicts_peak` is True, a memory limit applies to the predicted peak memory. Otherwise, it applies only to
    arguments and constants.
    """

    predicts_peak: bool = True
    measured = "arguments"
    unmeasured = "results and temporaries"

    def build(self, source: Source, program: PlannedProgram) -> SpmdProgram:
        """Return the program for a planned step. JAX traces it at its first call."""
        return SpmdProgram(source.native, program)

    def measure(self, source: Source, choices: Choices) -> Measured:
        """Return the bytes of arguments and constants that each worker stores."""
        held_bytes = np.zeros(prod(choices.problem.factors), np.int64)
        for tensor in _list_arguments(choices.problem.graph):
            held_bytes += count_shard_bytes(choices, tensor)
        return Measured(tuple(held_bytes.tolist()))

    def predict_peak(self, source: Source, choices: Choices) -> tuple[int, ...] | None:
        """Return the predicted peak memory of each worker in bytes, or None if `predicts_peak` is False."""
        if not self.predicts_peak:
            return None
        return (predict_worker(source.native, choices).needed_bytes,) * prod(choices.problem.factors)

    def measure_whole(self, source: Source) -> int:
        """Return the bytes of all arguments and constants on one device."""
        return sum(source.graph.tensors[tensor].size_bytes for tensor in _list_arguments(source.graph))

    def predict_whole_peak(self, source: Source) -> int:
        """Return the predicted peak memory of the step on one device, in bytes."""
        return predict_one_device(source.native).needed_bytes

    def find_kernel_bytes(self, program: Program) -> Mapping[int, int]:
        """Return the bytes that each operator's kernel reads and writes, by operator number."""
        return find_kernel_bytes(program)


def _list_arguments(graph: Graph) -> list[int]:
    return [n for n, tensor in enumerate(graph.tensors) if tensor.exists_before_step]


JAX = Engine(JaxFrontEnd(), JaxBackend(), replace(COLLECTIVE_RULES, overlaps_given="needed"))
JAX_LIMITING_ARGUMENTS = replace(JAX, backend=JaxBackend(predicts_peak=False))
"""A JAX engine for which a memory limit applies only to arguments and constants, not to results and temporaries."""


def make_engine(uneven: str | None) -> Engine:
    """Return the JAX engine for the option `uneven=`. Raise UnsupportedError for unknown values."""
    if uneven is None:
        return JAX
    if not isinstance(uneven, str) or uneven not in UNEVEN:
        raise UnsupportedError(f"uneven is {show(uneven)}, and not one of {', '.join(map(repr, UNEVEN))}.")
    return replace(JAX, rules=replace(JAX.rules, overlaps_given=cast(Any, uneven)))
