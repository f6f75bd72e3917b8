"""Find slice updates that XLA, JAX's compiler, may compute in place too early on CPUs.

In `lax.dynamic_update_slice(x, 2 * x[:3], (1,))`, the update reads elements that it overwrites. If `x` is a reshaped
array, jaxlib 0.6 writes them before it has read them all. XLA merges and moves operations, so it may also see a
reshaped array in `cumsum(x) * 2`, or in two equal results. So an update is returned if `x` and the new elements are
computed from a common value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tofu.jax.frontend.equations import Equation, Loop, Operand, Step

UPDATE = "dynamic_update_slice"
NEVER_FUSED = frozenset(("conv_general_dilated", "dot_general", "fft", "sort"))
"""Primitives that XLA computes before an update starts."""


def find_overwriting_updates(step: Step) -> frozenset[int]:
    """Return the results of all `lax.dynamic_update_slice(x, update, ...)` whose operands share a source.

    The source is `x`, or a value from which `x` and `update` are computed. Leave out updates of a value that a loop
    passes to its next iteration: JAX's compiler XLA computes these correctly in place.
    """
    equation_by_result = {number: equation for equation in step.walk() for number in equation.outputs}
    same_values = dict(_list_same_values(step.equations))

    def list_read(number: int) -> Sequence[Operand]:
        if number in same_values:
            return [same_values[number]]
        equation = equation_by_result.get(number)
        return () if equation is None or equation.primitive.name in NEVER_FUSED else equation.inputs

    def list_updated(number: int) -> Sequence[Operand]:
        equation = equation_by_result.get(number)
        is_update = equation is not None and equation.primitive.name == UPDATE
        return list_read(number)[: 1 if is_update else None]

    found = set()
    for equation, carried in _walk(step.equations, frozenset()):
        if equation.primitive.name == UPDATE:
            operand, update = equation.inputs[:2]
            if not _is_carried(operand, carried, equation_by_result):
                updated = set(_walk_back([operand], list_updated))
                if any(number in updated for number in _walk_back([update], list_read)):
                    found.add(equation.outputs[0])
    return frozenset(found)


def _walk(items: Sequence[Equation | Loop], carried: frozenset[int]) -> Iterator[tuple[Equation, frozenset[int]]]:
    for item in items:
        if isinstance(item, Loop):
            own = {carry.value for carry in item.carries} if item.length > 1 else ()
            yield from _walk(item.equations, carried.union(own))
        else:
            yield item, carried


def _list_same_values(items: Sequence[Equation | Loop]) -> Iterator[tuple[int, Operand]]:
    """Yield pairs of values that are equal because a loop runs only once."""
    for item in items:
        if isinstance(item, Loop):
            yield from _list_same_values(item.equations)
            for carry in item.carries if item.length == 1 else ():
                yield from ((carry.value, carry.first), (carry.last, carry.following))


def _is_carried(operand: Operand, carried: frozenset[int], equation_by_result: Mapping[int, Equation]) -> bool:
    while operand not in carried:
        equation = equation_by_result.get(operand) if isinstance(operand, int) else None
        if equation is None or equation.primitive.name != UPDATE:
            return False
        operand = equation.inputs[0]
    return True


def _walk_back(operands: Iterable[Operand], list_parents: Callable[[int], Sequence[Operand]]) -> Iterator[int]:
    waiting, seen = list(operands), set()
    while waiting:
        operand = waiting.pop()
        if isinstance(operand, int) and operand not in seen:
            seen.add(operand)
            yield operand
            waiting += list_parents(operand)
