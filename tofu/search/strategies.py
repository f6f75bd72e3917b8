"""Find the axes along which each operator of a graph can be split (section 4.2).

Tofu looks up and analyses the description of each operator. It then checks that the framework infers the same shapes
for a part of the operator.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from tofu.analysis import InputAccess, OperatorAccess, OutputAccess, Row, analyse
from tofu.errors import DescriptionError, ShapeError, UndescribedOperatorError, UnsupportedError, raise_together
from tofu.graph import Graph, Operator
from tofu.search.shared_axes import name_axes, restrict_axes, share_axes
from tofu.tdl import Registry, describe

Shape = tuple[int, ...]
Box = tuple[tuple[int, int], ...]


class OperatorDescriptions(Protocol):
    """The descriptions of a framework's operators, and facts about their kernels."""

    @property
    def descriptions(self) -> Registry:
        """The descriptions of operators, by name."""

    def infer_shapes(self, op: str, attributes: dict[str, Any], inputs: list[Shape]) -> Sequence[Shape] | None:
        """Return the output shapes that the framework infers, or None (the default). Raise an error for invalid inputs."""
        return None

    def draws_undescribed(self, operator: Operator, is_whole: bool) -> bool:
        """Return True if an operator draws random numbers that its description does not show. By default, return False.

        `is_whole` is True if no axis of the operator can be split.
        """
        return False


def find_strategies(
    graph: Graph, framework: OperatorDescriptions, undescribed: str = "error"
) -> tuple[OperatorAccess, ...]:
    """Find the axes along which each operator can be split, and the elements that each part reads and writes.

    Raises UndescribedOperatorError if an operator has no description. With `undescribed="replicate"`, every worker
    computes this operator instead. Raises UnsupportedError if a description does not cover an operator's attributes,
    and DescriptionError if a description contradicts the shapes.
    """
    check_descriptions(graph, framework.descriptions, undescribed)
    cache: dict[tuple[object, ...], OperatorAccess] = {}
    accesses: list[OperatorAccess] = []
    # On each worker, the gradient reads the state that the forward operator has saved on this worker.
    with_state = {operator.forward for operator in graph.operators if operator.stateful}
    for number, operator in enumerate(graph.operators):
        inputs = [graph.tensors[position].shape for position in operator.inputs]
        outputs = [graph.tensors[position].shape for position in operator.outputs]
        attributes = repr(sorted(operator.attributes.items()))  # unlike ==, distinguishes -0.0 from 0.0
        is_mixed = len({graph.tensors[position].times for position in (*operator.inputs, *operator.outputs)}) > 1
        names = operator.dimension_names
        has_copy = operator.stateful or number in with_state
        key = (
            *(operator.op, attributes, tuple(inputs), tuple(outputs)),
            *(operator.ignored, has_copy, is_mixed, names),
        )
        if key not in cache:
            found = _analyse_operator(operator, inputs, outputs, framework, undescribed)
            found = _without_ignored(name_axes(found, names) if names else found, operator.ignored)
            found = _without_fetched_axes(found) if is_mixed else found
            cache[key] = replace(found, is_always_fetched=found.is_always_fetched and not has_copy)
        accesses.append(cache[key])
    return share_axes(graph, accesses)


def mark_random(
    graph: Graph, accesses: Sequence[OperatorAccess], framework: OperatorDescriptions
) -> tuple[OperatorAccess, ...]:
    """Set `is_random` for operators whose random numbers the description does not show."""
    return tuple(
        replace(access, is_random=True) if framework.draws_undescribed(operator, not access.axes) else access
        for operator, access in zip(graph.operators, accesses, strict=True)
    )


def check_descriptions(graph: Graph, descriptions: Registry, undescribed: str) -> None:
    """Raise UndescribedOperatorError if operators have no description and `undescribed` is "error"."""
    if undescribed not in ("error", "replicate"):
        raise UndescribedOperatorError(f'undescribed must be "error" or "replicate", not {undescribed!r}.')
    missing: dict[str, list[Operator]] = {}
    for operator in graph.operators:
        if operator.op not in descriptions:
            missing.setdefault(operator.op, []).append(operator)
    if undescribed == "error":
        others = f"{descriptions.remedy}, or describe" if descriptions.remedy else "Describe"
        remedy = f"{others} each ({descriptions.decorator}(name), see docs/tdl.md)"
        raise_together(
            UndescribedOperatorError,
            "These operators have no description, so Tofu cannot know how to split them. "
            f'{remedy}, or let every worker compute them whole with undescribed="replicate":',
            [
                f"{op}, used by {', '.join(user.full_name for user in users[:3])}{' ...' if len(users) > 3 else ''}"
                for op, users in missing.items()
            ],
        )


def _analyse_operator(
    operator: Operator, inputs: list[Shape], outputs: list[Shape], framework: OperatorDescriptions, undescribed: str
) -> OperatorAccess:
    description = framework.descriptions.get(operator.op)
    if description is None:
        return make_whole_access(inputs, outputs, f"{operator.op} has no description")
    try:
        access = analyse(description, operator.attributes, inputs, outputs)
    except (DescriptionError, UnsupportedError) as error:
        place, _, reason = str(error).partition(": ")
        is_place = re.fullmatch(r".*\.py:\d+", place) is not None
        if undescribed == "replicate":
            return make_whole_access(inputs, outputs, reason if is_place else str(error))
        described = f"{reason} (described in {place})" if is_place else str(error)
        given = " and ".join(map(str, inputs)) or "nothing"
        raise type(error)(
            f'{operator.op} {operator.full_name} of {given}: {described}. With undescribed="replicate" every worker computes it whole.'
        ) from error
    disagreeing = [
        (axis, reason)
        for position, axis in enumerate(access.axes)
        if axis not in access.fetched_axes
        and not access.is_always_fetched
        and (reason := _explain_shape_disagreement(operator, access, position, inputs, outputs, framework))
    ]
    if not disagreeing:
        return access
    dropped = {axis for axis, _ in disagreeing}
    kept = restrict_axes(access, [axis for axis in access.axes if axis not in dropped])
    return replace(kept, rejected=kept.rejected + tuple(disagreeing))


def _without_ignored(access: OperatorAccess, ignored: Sequence[int]) -> OperatorAccess:
    if not any(access.inputs[slot].is_read for slot in ignored):
        return access
    inputs = (replace(read, is_read=read.is_read and n not in ignored) for n, read in enumerate(access.inputs))
    return replace(access, inputs=tuple(inputs))


def _without_fetched_axes(access: OperatorAccess) -> OperatorAccess:
    if not access.fetched_axes:
        return replace(access, is_always_fetched=False)
    reason = "its inputs and outputs get new values at different rates, so no fetch can replace its copies"
    rejected = tuple((axis, reason) for axis in access.fetched_axes)
    kept = restrict_axes(access, [axis for axis in access.axes if axis not in access.fetched_axes])
    return replace(kept, rejected=kept.rejected + rejected, is_always_fetched=False)


# Stands for the missing description of an operator, which nothing can split.
_UNDESCRIBED = describe(lambda *tensors: lambda *i: 0.0)


def make_whole_access(inputs: Sequence[Shape], outputs: Sequence[Shape], reason: str) -> OperatorAccess:
    """Return an `OperatorAccess` without axes, for an operator that cannot be split. `reason` explains why."""

    def rows(shape: Shape) -> tuple[Row, ...]:
        return tuple(Row((), 0, extent) for extent in shape)

    return OperatorAccess(
        axes=(),
        extents=(),
        inputs=tuple(InputAccess(rows(shape), addend_axes=(), fill=0.0, is_read=True) for shape in inputs),
        outputs=tuple(OutputAccess(rows(shape), combine=(), is_written=True) for shape in outputs),
        elementwise=False,
        rejected=(),
        description=_UNDESCRIBED,
        attributes={},
        variable_extents={},
        undescribed=reason,
    )


def _explain_shape_disagreement(
    operator: Operator,
    access: OperatorAccess,
    axis: int,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    framework: OperatorDescriptions,
) -> str:
    extent = access.extents[axis]
    outer = access.outer_axes.get(access.axes[axis], ())
    for part in ((0, extent // 2), (extent // 2, extent)):
        whole = ((0, 1) if name in outer else (0, e) for name, e in zip(access.axes, access.extents, strict=True))
        box = tuple(part if i == axis else interval for i, interval in enumerate(whole))
        local_inputs, local_outputs, changed = describe_part(access, inputs, outputs, box)
        attributes = {**operator.attributes, **changed}
        try:
            inferred = framework.infer_shapes(operator.op, attributes, local_inputs)
        except (ShapeError, RuntimeError) as error:
            return f"the framework refuses the shapes of a part: {error}"
        if inferred is not None and [tuple(shape) for shape in inferred] != local_outputs:
            return f"the framework infers {inferred} for a part whose outputs should be {local_outputs}"
    return ""


def describe_part(
    access: OperatorAccess, inputs: Sequence[Shape], outputs: Sequence[Shape], box: Box
) -> tuple[list[Shape], list[Shape], dict[str, Any]]:
    """Return (input shapes, output shapes, changed attributes) for one part of an operator.

    `box` has the part's range of each axis. The regions may extend beyond the tensors, as in padding.
    """

    def count(row: Row, extent: int) -> int:
        if all(box[axis] == (0, access.extents[axis]) for axis, _ in row.terms):
            return extent
        reach = (abs(coefficient) * (box[axis][1] - box[axis][0] - 1) for axis, coefficient in row.terms)
        return row.upper - row.lower + sum(reach)

    own_inputs = [tuple(map(count, read.rows, shape)) for read, shape in zip(access.inputs, inputs, strict=True)]
    own_outputs = [tuple(map(count, made.rows, shape)) for made, shape in zip(access.outputs, outputs, strict=True)]
    ranges = dict(zip(access.axes, box, strict=True))
    return own_inputs, own_outputs, access.worker_attributes(ranges, own_inputs, own_outputs)
