"""Convert the loops (`lax.scan`) and branches (`lax.cond`) of a JAX program to equations and loops of Tofu."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from jax.extend import core

from tofu.jax.frontend.equations import LOOP_CELL, LOOP_STACK, Equation, Literal, Loop, LoopCarry, Operand
from tofu.jax.frontend.value_types import read_type
from tofu.jax.frontend.versions import as_closed, count_scanned

if TYPE_CHECKING:
    from tofu.jax.frontend.trace import StepBuilder


RUN_WHERE_TAKEN = ("while", "pure_callback")
"""Primitives that must not run unless their branch is chosen, because they may never end, or raise an error."""


def enter_branches(builder: StepBuilder, jaxpr_equation: core.JaxprEqn, equation: Equation) -> Sequence[Operand] | None:
    """Compute all branches of a `lax.cond`, and choose between their results with a `lax.select`.

    If the condition is constant, compute only the chosen branch. Otherwise, return None if a branch has a `while` loop
    or a `jax.pure_callback`, because these may only run in the chosen branch.
    """
    index, *operands = equation.inputs
    branches = jaxpr_equation.params["branches"]
    if isinstance(index, Literal):
        branch = min(max(int(index.value), 0), len(branches) - 1)
        return builder.inline_closed(branches[branch], operands, equation)
    inner_equations = (inner for body in branches for inner in walk_equations(body.jaxpr))
    if any(inner.primitive.name in RUN_WHERE_TAKEN for inner in inner_equations):
        return None
    scope = "/".join(filter(None, (equation.scope, "cond")))
    results_by_branch = [
        builder.inline_closed(body, operands, equation, f"{scope}/branch_{n}") for n, body in enumerate(branches)
    ]
    types = [read_type(variable.aval) for variable in jaxpr_equation.outvars]
    return [
        results[0]
        if all(result is results[0] for result in results)
        else builder.add(core.primitives.select_n_p, type_, [index, *results], equation, scope)
        for type_, *results in zip(types, *results_by_branch, strict=True)
    ]


def list_bodies(params: Mapping[str, Any]) -> Iterator[core.ClosedJaxpr]:
    """Yield the inner programs among the parameters of an equation, such as the body of a loop."""
    for value in params.values():
        for element in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(element, (core.ClosedJaxpr, core.Jaxpr)):
                yield as_closed(element)


def walk_equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    """Yield all equations of a program, including those of inner programs."""
    for equation in jaxpr.eqns:
        yield equation
        for body in list_bodies(equation.params):
            yield from walk_equations(body.jaxpr)


def enter_scan(builder: StepBuilder, jaxpr_equation: core.JaxprEqn, equation: Equation) -> Sequence[Operand]:
    """Convert a `lax.scan` (a loop in JAX) to a `Loop`, and return its results."""
    params = jaxpr_equation.params
    body, length = params["jaxpr"], params["length"]
    begin, end = accumulate(count_scanned(jaxpr_equation))
    constants, firsts, scanned = equation.inputs[:begin], equation.inputs[begin:end], equation.inputs[end:]
    types = [read_type(variable.aval) for variable in jaxpr_equation.outvars]
    carry_types, stack_types = types[: len(firsts)], types[len(firsts) :]
    if not length:
        return [*firsts, *map(builder.add_empty, stack_types)]
    scope = "/".join(filter(None, (equation.scope, "scan")))
    outer_equations, builder.equations = builder.equations, []
    body_types = [read_type(variable.aval) for variable in body.jaxpr.invars]
    values = list(map(builder.add_value, body_types[begin:end]))
    elements = [
        builder.add(LOOP_CELL, type_, [operand], equation, scope)
        for type_, operand in zip(body_types[end:], scanned, strict=True)
    ]
    outputs = builder.inline_closed(body, [*constants, *values, *elements], equation, scope)
    stacks = [
        builder.add(LOOP_STACK, type_, [output], equation, scope, length=length)
        for type_, output in zip(stack_types, outputs[len(firsts) :], strict=True)
    ]
    lasts = list(map(builder.add_value, carry_types))
    carries = tuple(map(LoopCarry, values, firsts, outputs, lasts))
    loop = Loop(tuple(builder.equations), carries, length, bool(params["reverse"]), scope)
    builder.equations = [*outer_equations, loop.without_constant_carries()]
    return [*lasts, *stacks]
