"""Loops of known length. A scan stays a loop: its body stands once in the step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from jax.extend import core

from tofu.jax.frontend.equations import LOOP_CELL, LOOP_STACK, Carry, Equation, Loop, Operand, read_type
from tofu.jax.frontend.versions import count_scanned

if TYPE_CHECKING:
    from tofu.jax.frontend.trace import Flattening


def enter_scan(flattening: Flattening, one: core.JaxprEqn, equation: Equation) -> Sequence[Operand]:
    """A scan as a loop, whose body begins with the cells of what is scanned and ends with its results being put together."""
    params = one.params
    body, length = params["jaxpr"], params["length"]
    fixed, carried = accumulate(count_scanned(one))
    ends = [read_type(variable.aval) for variable in one.outvars]
    if not length:
        return [*equation.inputs[fixed:carried], *map(flattening.add_empty, ends[carried - fixed :])]
    inside = "/".join(filter(None, (equation.scope, "scan")))
    around, flattening.equations = flattening.equations, []
    values = [flattening.add_value(read_type(variable.aval)) for variable in body.jaxpr.invars[fixed:carried]]
    cells = [
        flattening.add(LOOP_CELL, read_type(variable.aval), [whole], equation, inside)
        for variable, whole in zip(body.jaxpr.invars[carried:], equation.inputs[carried:], strict=True)
    ]
    outputs = flattening.inline(
        body.jaxpr,
        body.consts,
        [*equation.inputs[:fixed], *values, *cells],
        inside,
        equation.line,
        equation.checkpoint,
    )
    ends = [read_type(variable.aval) for variable in one.outvars]
    stacks = [
        flattening.add(LOOP_STACK, type_, [cell], equation, inside, length=length)
        for type_, cell in zip(ends[carried - fixed :], outputs[carried - fixed :], strict=True)
    ]
    lasts = list(map(flattening.add_value, ends[: carried - fixed]))
    carries = tuple(map(Carry, values, equation.inputs[fixed:carried], outputs, lasts))
    loop = Loop(tuple(flattening.equations), carries, length, bool(params["reverse"]), inside)
    flattening.equations = [*around, loop.without_constant_carries()]
    return [*lasts, *stacks]
