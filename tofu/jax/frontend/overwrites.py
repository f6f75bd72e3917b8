"""Find slice updates that XLA on CPUs may compute in place too early.

In `lax.dynamic_update_slice(x, 2 * x[:3], (1,))`, the update reads elements that it overwrites. If `x` is a reshaped array,
jaxlib 0.6 writes them before it has read them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tofu.jax.frontend.equations import Equation, Loop, Operand, Step
from tofu.jax.frontend.extrema import RESHAPING

MAY_SHARE_MEMORY = RESHAPING | {"copy", "transpose"}
"""Primitives whose result may have the memory of their operand."""
NEVER_FUSED = frozenset(("conv_general_dilated", "dot_general", "fft", "sort"))
"""Primitives that XLA computes before an update starts."""


def find_overwriting_updates(step: Step) -> frozenset[int]:
    """Return the results of each `dynamic_update_slice` whose update reads the updated array.

    In loops, return only updates of reshaped arrays. XLA computes other updates correctly, and much faster in place.
    """
    equation_by_result = {number: equation for equation in step.walk() for number in equation.outputs}
    found = set()
    for equation, is_in_loop in _walk(step.equations, is_in_loop=False):
        if equation.primitive.name == "dynamic_update_slice":
            operand, update = equation.inputs[:2]
            arrays = _list_reshaped(operand, equation_by_result)
            if (len(arrays) > 1 or not is_in_loop) and _reads(update, arrays, equation_by_result):
                found.add(equation.outputs[0])
    return frozenset(found)


def _walk(items: Sequence[Equation | Loop], is_in_loop: bool) -> Iterator[tuple[Equation, bool]]:
    for item in items:
        if isinstance(item, Loop):
            yield from _walk(item.equations, is_in_loop=True)
        else:
            yield item, is_in_loop


def _list_reshaped(operand: Operand, equation_by_result: Mapping[int, Equation]) -> set[int]:
    """Return an operand, and the arrays that it is reshaped from."""
    arrays: set[int] = set()
    while isinstance(operand, int):
        arrays.add(operand)
        equation = equation_by_result.get(operand)
        if equation is None or equation.primitive.name not in MAY_SHARE_MEMORY:
            break
        operand = equation.inputs[0]
    return arrays


def _reads(update: Operand, arrays: set[int], equation_by_result: Mapping[int, Equation]) -> bool:
    waiting, seen = [update], set()
    while waiting:
        operand = waiting.pop()
        if not isinstance(operand, int) or operand in seen:
            continue
        if operand in arrays:
            return True
        seen.add(operand)
        equation = equation_by_result.get(operand)
        if equation is not None and equation.primitive.name not in NEVER_FUSED:
            waiting += equation.inputs
    return False
