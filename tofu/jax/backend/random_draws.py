"""Draw a worker's part of random numbers."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core.primitives import threefry2x32_p

from tofu.jax.frontend.versions import find_key_implementation

if TYPE_CHECKING:
    from tofu.jax.backend.local_calls import LocalCall

MOST_POSITIONS = 2**32
"""The most random numbers of one draw that `draw_bits` can count."""


def draw_all(call: LocalCall, operands: list[Any]) -> list[Any]:
    """Draw the numbers of all workers, and take this worker's part."""
    (keys,) = operands
    (all_numbers,) = call.bind(operands, shape=call.equation.params["shape"])
    return [call.take_part(all_numbers, sharded_dimensions=keys.ndim)]


def draw_bits(call: LocalCall, operands: list[Any]) -> list[Any]:
    """Draw only this worker's bits, if each bit depends only on its key and its position in the complete array."""
    (keys,) = operands
    shape, bit_width = call.equation.params["shape"], call.equation.params["bit_width"]
    depends_on_position = (
        find_key_implementation(keys.dtype) == "threefry2x32" and jax.config.jax_threefry_partitionable
    )
    if not depends_on_position or not shape or prod(shape) > MOST_POSITIONS or bit_width not in (8, 16, 32):
        return draw_all(call, operands)
    boxes = [box[keys.ndim :] for box in call.output_boxes[0]]
    firsts = call.workers.pick([[begin for begin, _ in box] for box in boxes])
    local_shape = call.parameters["shape"]
    position = jnp.zeros(local_shape, np.uint32)
    for d, first in enumerate(firsts):
        along = lax.broadcasted_iota(np.uint32, local_shape, d) + jnp.asarray(first, np.uint32)
        position += along * np.uint32(prod(shape[d + 1 :]))

    def draw(key: Any) -> Any:
        first_word, second_word = threefry2x32_p.bind(key[0], key[1], jnp.zeros_like(position), position)
        return (first_word ^ second_word).astype(f"uint{bit_width}")

    for _ in range(keys.ndim):
        draw = jax.vmap(draw)
    return [draw(jax.random.key_data(keys))]


def generate_all(call: LocalCall, operands: list[Any]) -> list[Any]:
    """Do the same for `lax.rng_bit_generator`, which also returns the next key."""
    key, all_bits = call.bind(operands, shape=call.equation.params["shape"])
    return [key, call.take_part(all_bits, 1)]
