"""Loops of known length. A scan is unrolled here, in one function, so that a scan that stays a loop can take its place.

Results are stacked whether or not somebody reads the stack; what only another scan reads, cell by cell, is left out afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jax.extend import core

from tofu.jax.frontend.equations import Equation, Operand, read_type

if TYPE_CHECKING:
    from tofu.jax.frontend.trace import Flattening

primitives = core.primitives


def unroll_scan(flattening: Flattening, one: core.JaxprEqn, equation: Equation) -> Sequence[Operand]:
    """A scan as its steps, one after the other: slices of what is scanned, and the results put together."""
    params = one.params
    body, length = params["jaxpr"], params["length"]
    fixed, carried = params["num_consts"], params["num_consts"] + params["num_carry"]
    constants, carry = equation.inputs[:fixed], list(equation.inputs[fixed:carried])
    results: dict[int, list[Operand]] = {}
    for t in reversed(range(length)) if params["reverse"] else range(length):
        cells = [_take(flattening, equation, x, t) for x in equation.inputs[carried:]]
        outputs = flattening.inline(
            body.jaxpr,
            body.consts,
            [*constants, *carry, *cells],
            "/".join(filter(None, (equation.scope, f"step_{t}"))),
            equation.line,
            equation.checkpoint,
        )
        carry, results[t] = outputs[: params["num_carry"]], outputs[params["num_carry"] :]
    stacked = [
        _stack(flattening, equation, [results[t][n] for t in range(length)], read_type(variable.aval).shape)
        for n, variable in enumerate(one.outvars[params["num_carry"] :])
    ]
    return [*carry, *stacked]


def _take(flattening: Flattening, like: Equation, scanned: Operand, t: int) -> Operand:
    """The cell `t` of what is scanned. Of what another scan has put together it is the cell as that scan made it."""
    assert isinstance(scanned, int)
    if scanned in flattening.stacks:
        return flattening.stacks[scanned][t]
    whole = flattening.types[scanned]
    rest = whole.shape[1:]
    cut = flattening.add(
        primitives.slice_p,
        whole.with_shape(1, *rest),
        [scanned],
        like,
        start_indices=(t,) + (0,) * len(rest),
        limit_indices=(t + 1, *rest),
        strides=None,
    )
    return flattening.add(primitives.squeeze_p, whole.with_shape(*rest), [cut], like, dimensions=(0,))


def _stack(flattening: Flattening, like: Equation, cells: Sequence[Operand], shape: tuple[int, ...]) -> int:
    """The results of all steps as one tensor."""
    lines = []
    for cell in cells:
        type_ = flattening.types[cell] if isinstance(cell, int) else cell.type
        lines.append(
            flattening.add(
                primitives.broadcast_in_dim_p,
                type_.with_shape(1, *shape[1:]),
                [cell],
                like,
                shape=(1, *shape[1:]),
                broadcast_dimensions=tuple(range(1, len(shape))),
                sharding=None,
            )
        )
    stacked = lines[0]
    if len(lines) > 1:
        whole = flattening.types[lines[0]].with_shape(*shape)
        stacked = flattening.add(primitives.concatenate_p, whole, lines, like, dimension=0)
    flattening.stacks[stacked] = cells
    return stacked
