"""Equations that only move cells, such as pads, along an axis where the workers' copies cannot: which cells go from whom to whom.

They go straight from the inputs' shards to the outputs', which may be less than what the copies read; but what several equations read
alike moves once, as the plan counts it, to where their copies have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import jax.numpy as jnp

from tofu.analysis import InputAccess, OutputAccess
from tofu.jax.backend.pieces import Piece, count_moved, find_nearest, shift
from tofu.jax.backend.places import Box, Place, Places, widen
from tofu.jax.frontend.equations import Equation, Literal, Step

Read: TypeAlias = tuple[int, tuple[Piece, ...]]
"""A value, and what each worker takes from whom."""


@dataclass(frozen=True)
class Move:
    """What goes from one operand of an equation to where its result lies.

    Attributes
    ----------
    value
        The operand.
    held, lies
        Where it lies, and the boxes of the result, both with the dimension that one of them lacks.
    read
        What goes from worker to worker, where it lies in the operand; `distance` further on it lies in the result.
    given
        How the operand is read.
    """

    value: int
    held: Place
    lies: Sequence[Box]
    read: tuple[Piece, ...]
    distance: tuple[int, ...]
    given: InputAccess

    @property
    def pieces(self) -> list[Piece]:
        """What goes from worker to worker, where it lies in the result."""
        return [one._replace(box=shift(one.box, self.distance)) for one in self.read]

    def widen(self, x: Any) -> Any:
        """The operand with the dimension that it lacks."""
        lacked = _lacked(self.given)
        return x if lacked is None else jnp.expand_dims(x, lacked)


class Moving:
    """The equations of a step that only move cells under a plan. `operator_of`: by `id` of equations; `tensor_of`: by value."""

    def __init__(
        self, step: Step, places: Places, operator_of: Mapping[int, int], tensor_of: Mapping[int, int]
    ) -> None:
        self._step, self._places, self._operator_of, self._tensor_of = step, places, operator_of, tensor_of

    def has(self, operator: int) -> bool:
        """Whether an operator is one of them, along an axis that it is split along."""
        access = self._places.access(operator)
        moved = {access.axes.index(axis) for axis in access.fetched_axes}
        return bool(moved.intersection(self._places.axes(operator)))

    def is_staged(self, operator: int) -> bool:
        """Whether cells go to where the operator's copies have its outputs, from where these go to where they lie."""
        return operator in self._staged

    def list_moves(self, equation: Equation, operator: int, slot: int, is_staged: bool) -> Iterator[Move]:
        """What goes where for an output."""
        access, places = self._places.access(operator), self._places
        written = access.outputs[slot]
        target = places.written(operator, slot) if is_staged else places.tensor(self._tensor_of[equation.outputs[slot]])
        lies = [widen(box, _lacked(written)) for box in target.boxes]
        operands = (x for x in equation.inputs if not isinstance(x, Literal))
        for given, value in zip(access.inputs, operands, strict=True):
            rows = zip(_list_lower_ends(written), _list_lower_ends(given), strict=True)
            distance = tuple(there - here for there, here in rows)
            held = places.tensor(self._tensor_of[value]).widen(_lacked(given))
            before = [shift(box, [-n for n in distance]) for box in lies]
            yield Move(value, held, lies, tuple(find_nearest(held, before, places.factors)), distance, given)

    def squeeze(self, operator: int, slot: int, out: Any) -> Any:
        """An output without the dimension that it lacks."""
        lacked = _lacked(self._places.access(operator).outputs[slot])
        return out if lacked is None else jnp.squeeze(out, lacked)

    @cached_property
    def _staged(self) -> frozenset[int]:
        """The operators whose copies read what others read too, where more moved if each went straight."""
        copies: dict[Read, set[int]] = {}
        straight: dict[Read, set[Read]] = {}
        for equation in self._step.walk():
            operator = self._operator_of[id(equation)]
            for slot in range(len(equation.outputs)) if self.has(operator) else ():
                both = (self.list_moves(equation, operator, slot, is_staged) for is_staged in (True, False))
                for staged, direct in zip(*both, strict=True):
                    key = staged.value, staged.read
                    copies.setdefault(key, set()).add(operator)
                    straight.setdefault(key, set()).add((direct.value, direct.read))
        found: set[int] = set()
        for key, operators in copies.items():
            if count_moved(key[1]) < sum(count_moved(read) for _, read in straight[key]):
                found |= operators
        while more := {one for each in copies.values() if each & found for one in each} - found:
            found |= more  # what shares with one of these shares where their copies have it
        return frozenset(found)


def _lacked(access: InputAccess | OutputAccess) -> int | None:
    """The dimension that a tensor lacks of those in which its cells are moved."""
    return None if access.absent is None else access.absent.dimension


def _list_lower_ends(access: InputAccess | OutputAccess) -> list[int]:
    """Of the rows of a tensor, with that of the dimension that it lacks."""
    ends = [row.lower for row in access.rows]
    if access.absent is not None:
        ends.insert(access.absent.dimension, access.absent.row.lower)
    return ends
