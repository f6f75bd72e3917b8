"""Branches: the one that is known to be taken, or all of them and a choice, or one equation where a branch has to be taken to be run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jax.extend import core

from tofu.jax.frontend.equations import Equation, Literal, Operand, read_type

if TYPE_CHECKING:
    from tofu.jax.frontend.trace import Flattening


RUN_WHERE_TAKEN = ("while", "pure_callback")
"""What may not end, or may raise an error, in a branch that is not taken."""


def enter_branches(flattening: Flattening, one: core.JaxprEqn, equation: Equation) -> Sequence[Operand] | None:
    """The results of a `cond` whose branches are read; None where it is to stay one equation, which every worker computes whole.

    Which branch is taken is often known at run time alone. Then all are computed, each split as the plan has it, and their results are
    chosen from: a branch has no side effects. With a `while_loop` in it, it might not end where it is not taken, and a function that
    `jax.pure_callback` calls might raise an error there, as `equinox.error_if` does.
    """
    index, *operands = equation.inputs
    bodies = one.params["branches"]
    if isinstance(index, Literal):
        taken = min(max(int(index.value), 0), len(bodies) - 1)
        return _inline(flattening, bodies[taken], operands, equation, equation.scope)
    if any(must_be_taken(body.jaxpr) for body in bodies):
        return None
    scope = "/".join(filter(None, (equation.scope, "cond")))
    cases = [_inline(flattening, body, operands, equation, f"{scope}/branch_{n}") for n, body in enumerate(bodies)]
    types = [read_type(variable.aval) for variable in one.outvars]
    return [
        results[0]
        if all(result is results[0] for result in results)
        else flattening.add(core.primitives.select_n_p, type_, [index, *results], equation, scope)
        for type_, *results in zip(types, *cases, strict=True)
    ]


def _inline(
    flattening: Flattening, body: core.ClosedJaxpr, operands: Sequence[Operand], equation: Equation, scope: str
) -> list[Operand]:
    return flattening.inline(body.jaxpr, body.consts, operands, scope, equation.line, equation.checkpoint)


def must_be_taken(jaxpr: core.Jaxpr) -> bool:
    """Whether there is something in it, at any depth, that is not to run in a branch that is not taken."""
    return any(
        equation.primitive.name in RUN_WHERE_TAKEN
        or any(must_be_taken(body.jaxpr) for body in list_bodies(equation.params))
        for equation in jaxpr.eqns
    )


def list_bodies(params: Mapping[str, Any]) -> Iterator[core.ClosedJaxpr]:
    """The jaxprs among the parameters of an equation."""
    for value in params.values():
        for part in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(part, core.ClosedJaxpr):
                yield part
            elif isinstance(part, core.Jaxpr):
                yield core.ClosedJaxpr(part, ())
