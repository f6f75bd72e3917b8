"""Find splits that a kernel computes correctly, but that the operator's description does not offer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tofu.analysis import Combine, OperatorAccess, Row
from tofu.verification.cuts import Cut


@dataclass(frozen=True)
class Missing:
    """A correct split of the operator `op` that its description does not offer."""

    op: str
    cut: Cut


def find_uncovered(cuts: Iterable[Cut], access: OperatorAccess, is_written: Sequence[bool]) -> list[Cut]:
    """Return the cuts that correspond to no axis of the operator. Outputs with False in `is_written` are ignored."""
    strategies = [_make_cut(access, axis, is_written) for axis in range(len(access.axes))]
    are_inputs_read = [access_input.is_read for access_input in access.inputs]
    return sorted(
        (cut for cut in set(cuts) if not any(_is_covered(cut, axis, are_inputs_read) for axis in strategies)), key=repr
    )


def _is_covered(cut: Cut, strategy: Cut, read: Sequence[bool]) -> bool:
    dimensions = zip(cut.inputs, strategy.inputs, read, strict=True)
    cuts_fewer_inputs = all(d in (None, strategy_dimension) for d, strategy_dimension, is_read in dimensions if is_read)
    return cuts_fewer_inputs and (cut.outputs, cut.combine) == (strategy.outputs, strategy.combine)


def _make_cut(access: OperatorAccess, axis: int, is_written: Sequence[bool]) -> Cut:

    def find_dimension(rows: Sequence[Row]) -> int | None:
        return next((d for d, row in enumerate(rows) if any(moving == axis for moving, _ in row.terms)), None)

    combine = [  # overlapping parts count as concatenated
        _without_overlap(written.combine[axis]) if is_compared else Combine.REPLICATE
        for written, is_compared in zip(access.outputs, is_written, strict=True)
    ]
    outputs = [
        find_dimension(written.rows) if output_combine is Combine.CONCAT else None
        for written, output_combine in zip(access.outputs, combine, strict=True)
    ]
    return Cut(tuple(find_dimension(read.rows) for read in access.inputs), tuple(outputs), tuple(combine))


def _without_overlap(combine: Combine) -> Combine:
    return Combine.CONCAT if combine is Combine.OVERLAP_ADD else combine


@dataclass(frozen=True)
class Explanation:
    """The reason why descriptions do not offer some correct splits.

    `op` and `pattern` are regular expressions for the operator's name and the printed cut.
    """

    op: str
    pattern: str
    reason: str


def separate_explained(
    splits: Iterable[Missing], explanations: Sequence[Explanation]
) -> tuple[tuple[Missing, ...], tuple[tuple[Missing, str], ...]]:
    """Return the splits without an explanation, and the explained splits with their reasons."""
    unexplained, explained = [], []
    for split in splits:
        matching = (e for e in explanations if re.fullmatch(e.op, split.op) and re.match(e.pattern, repr(split.cut)))
        if explanation := next(matching, None):
            explained.append((split, explanation.reason))
        else:
            unexplained.append(split)
    return tuple(unexplained), tuple(explained)
