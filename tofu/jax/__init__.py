"""Plan JAX training steps and run them on several devices.

A training step takes the state of a model and a batch, and returns the next state:

    parallel = tofu.jax.partition(step, 8, (state, batch))
    state = parallel.place(state)
    state, loss = parallel(state, batch)
"""

from importlib import import_module

from tofu.imports import REMEDY_OF_JAX

try:
    import_module("jax")
except ImportError as error:
    raise ImportError(f"This needs JAX, which cannot be imported ({error}): {REMEDY_OF_JAX}.") from error

from tdl_ops.jax import op
from tofu.jax.backend.uneven import UnevenArray, UnevenSharding
from tofu.jax.engine import JAX
from tofu.jax.frontend.read_step import read_step
from tofu.jax.frontend.versions import reserve_threads
from tofu.jax.kernels.describe import Described, describe
from tofu.jax.partition import DeferredStep, partition
from tofu.jax.partitioned_step import PartitionedStep

__all__ = [
    "JAX",
    "DeferredStep",
    "Described",
    "PartitionedStep",
    "UnevenArray",
    "UnevenSharding",
    "describe",
    "op",
    "partition",
    "read_step",
]

reserve_threads()
