"""Describe matrix products: dot_general, symmetric products, and products of groups of rows."""

import numpy as np

from tdl_ops.jax import op
from tdl_ops.patterns.contraction import contract
from tofu.errors import UnsupportedError
from tofu.tdl import Any, Opaque, Sum, minimum, output, position, where


@op("dot_general")
def dot_general(lhs, rhs, *, dimension_numbers):
    (left_sum, right_sum), (left_batch, right_batch) = dimension_numbers
    left = {d: f"b{n}" for n, d in enumerate(left_batch)} | {d: f"k{n}" for n, d in enumerate(left_sum)}
    right = {d: f"b{n}" for n, d in enumerate(right_batch)} | {d: f"k{n}" for n, d in enumerate(right_sum)}
    left_names = [left.get(d, f"m{d}") for d in range(lhs.ndim)]
    right_names = [right.get(d, f"n{d}") for d in range(rhs.ndim)]
    free = [name for name in (*left_names, *right_names) if name[0] in "mn"]
    return contract([(lhs, left_names), (rhs, right_names)], [*(f"b{n}" for n in range(len(left_batch))), *free])


@op("symmetric_product", concrete=True)
def symmetric_product(a, c, *, alpha, beta):
    n = a.ndim - 2
    product = lambda b, i, j: Sum(lambda k: a[(*b, i, k)] * a[(*b, j, k)])
    return lambda *v: alpha * product(v[:n], *v[n:]) + beta * c[v]


@op("ragged_dot_general", concrete=True)
def ragged_dot_general(lhs, rhs, group_sizes, *, dot_dimension_numbers, lhs_ragged_dimensions, rhs_group_dimensions):
    numbers = dot_dimension_numbers, lhs_ragged_dimensions, rhs_group_dimensions
    group = Opaque(lambda sizes, row: np.searchsorted(np.cumsum(sizes), row, "right"), "group_of_row")
    find = lambda row: group(group_sizes[:], position(row))[()]
    summed = next((d for d in (1, 2) if numbers == ((((1,), (d,)), ((), ())), (0,), (0,))), None)
    if summed is not None:
        is_there = lambda row: find(row) < group_sizes.shape[0]
        of_group = lambda row: Any(minimum(find(row), group_sizes.shape[0] - 1))
        cell = lambda row, k, n: (of_group(row), k, n) if summed == 1 else (of_group(row), n, k)
        product = lambda row, k, n: lhs[row, k] * rhs[cell(row, k, n)]
        return lambda row, n: Sum(lambda k: where(is_there(row), product(row, k, n), 0.0))
    if numbers == ((((0,), (0,)), ((), ())), (0,), ()):
        each = lambda g, row, m, n: where(find(row) == position(g), lhs[row, m] * rhs[row, n], 0.0)
        groups = {"g": group_sizes.shape[0]}
        return output("g m n", lambda g, m, n: Sum(lambda row: each(g, row, m, n)), groups)
    raise UnsupportedError("a ragged product of these dimensions is not described: each row must be in one group")
