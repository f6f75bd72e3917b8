"""Convert scans and branches of a jaxpr to equations and loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from jax.extend import core

from tofu.jax.frontend.equations import LOOP_CELL, LOOP_STACK, Equation, Literal, Loop, LoopCarry, Operand, read_type
from tofu.jax.frontend.versions import count_scanned

if TYPE_CHECKING:
    from tofu.jax.frontend.trace import StepBuilder


RUN_WHERE_TAKEN = ("while", "pure_callback")
"""Primitives that must only run in the branch taken, because they may not end or may raise an error."""


def enter_branches(builder: StepBuilder, one: core.JaxprEqn, equation: Equation) -> Sequence[Operand] | None:
    """Inline the branches of a `cond` and return its results, or return None if the `cond` must stay one equation.

    If the branch is known only at run time, all branches are computed, each split as planned, and a select chooses
    among the results. A `cond` with a `while_loop` or a `jax.pure_callback` stays one equation, which every worker
    computes: in a branch that is not taken, the loop might not end, or the callback might raise an error.
    """
    index, *operands = equation.inputs
    bodies = one.params["branches"]
    if isinstance(index, Literal):
        taken = min(max(int(index.value), 0), len(bodies) - 1)
        return builder.inline_closed(bodies[taken], operands, equation)
    if any(must_be_taken(body.jaxpr) for body in bodies):
        return None
    scope = "/".join(filter(None, (equation.scope, "cond")))
    cases = [builder.inline_closed(body, operands, equation, f"{scope}/branch_{n}") for n, body in enumerate(bodies)]
    types = [read_type(variable.aval) for variable in one.outvars]
    return [
        results[0]
        if all(result is results[0] for result in results)
        else builder.add(core.primitives.select_n_p, type_, [index, *results], equation, scope)
        for type_, *results in zip(types, *cases, strict=True)
    ]


def must_be_taken(jaxpr: core.Jaxpr) -> bool:
    """Return True if a jaxpr contains, at any depth, a primitive of `RUN_WHERE_TAKEN`."""
    return any(
        equation.primitive.name in RUN_WHERE_TAKEN
        or any(must_be_taken(body.jaxpr) for body in list_bodies(equation.params))
        for equation in jaxpr.eqns
    )


def list_bodies(params: Mapping[str, Any]) -> Iterator[core.ClosedJaxpr]:
    """Yield the jaxprs among the parameters of an equation."""
    for value in params.values():
        for part in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(part, core.ClosedJaxpr):
                yield part
            elif isinstance(part, core.Jaxpr):
                yield core.ClosedJaxpr(part, ())


def enter_scan(builder: StepBuilder, one: core.JaxprEqn, equation: Equation) -> Sequence[Operand]:
    """Convert a scan to a loop and return its results.

    The body of the loop begins with equations that take elements of the scanned values, and ends with equations that
    stack results.
    """
    params = one.params
    body, length = params["jaxpr"], params["length"]
    fixed, carried = accumulate(count_scanned(one))
    ends = [read_type(variable.aval) for variable in one.outvars]
    if not length:
        return [*equation.inputs[fixed:carried], *map(builder.add_empty, ends[carried - fixed :])]
    inside = "/".join(filter(None, (equation.scope, "scan")))
    around, builder.equations = builder.equations, []
    values = [builder.add_value(read_type(variable.aval)) for variable in body.jaxpr.invars[fixed:carried]]
    cells = [
        builder.add(LOOP_CELL, read_type(variable.aval), [whole], equation, inside)
        for variable, whole in zip(body.jaxpr.invars[carried:], equation.inputs[carried:], strict=True)
    ]
    outputs = builder.inline_closed(body, [*equation.inputs[:fixed], *values, *cells], equation, inside)
    stacks = [
        builder.add(LOOP_STACK, type_, [cell], equation, inside, length=length)
        for type_, cell in zip(ends[carried - fixed :], outputs[carried - fixed :], strict=True)
    ]
    lasts = list(map(builder.add_value, ends[: carried - fixed]))
    carries = tuple(map(LoopCarry, values, equation.inputs[fixed:carried], outputs, lasts))
    loop = Loop(tuple(builder.equations), carries, length, bool(params["reverse"]), inside)
    builder.equations = [*around, loop.without_constant_carries()]
    return [*lasts, *stacks]
