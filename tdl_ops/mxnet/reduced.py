"""Which dimensions a reduction goes over, by MXNet's attributes."""

from __future__ import annotations


def list_reduced(axis: int | tuple[int, ...] | None, exclude: bool, ndim: int) -> list[int]:
    """The dimensions that a reduction of a tensor of `ndim` dimensions goes over: those of `axis`, none meaning all, or the others.

    >>> list_reduced((-1, 0), False, 3), list_reduced(1, True, 3), list_reduced(None, False, 2)
    ([0, 2], [0, 2], [0, 1])
    """
    axes = {d % ndim for d in ((axis,) if isinstance(axis, int) else axis or ())}
    if exclude:
        return [d for d in range(ndim) if d not in axes]
    return sorted(axes) or list(range(ndim))
