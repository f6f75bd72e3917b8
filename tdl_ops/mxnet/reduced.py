"""Reduced dimensions, from MXNet's attributes."""


def list_reduced(axis: int | tuple[int, ...] | None, exclude: bool, ndim: int) -> list[int]:
    """Return the reduced dimensions of a tensor of `ndim` dimensions.

    `axis` lists them, or with `exclude` the others. None means all dimensions.

    >>> list_reduced((-1, 0), False, 3), list_reduced(1, True, 3), list_reduced(None, False, 2)([0, 2], [0, 2], [0, 1])
    """
    axes = {d % ndim for d in ((axis,) if isinstance(axis, int) else axis or ())}
    if exclude:
        return [d for d in range(ndim) if d not in axes]
    return sorted(axes) or list(range(ndim))
