"""Parse the attributes `axis` and `exclude` of reductions."""


def list_reduced(axis: int | tuple[int, ...] | None, exclude: bool, ndim: int) -> list[int]:
    """Return the dimensions over which a reduction sums, for a tensor with `ndim` dimensions.

    >>> list_reduced((-1, 0), False, ndim=3), list_reduced(1, True, ndim=3), list_reduced(None, False, ndim=2)
    ([0, 2], [0, 2], [0, 1])
    """
    axes = {d % ndim for d in ((axis,) if isinstance(axis, int) else axis or ())}
    if exclude:
        return [d for d in range(ndim) if d not in axes]
    return sorted(axes) or list(range(ndim))
