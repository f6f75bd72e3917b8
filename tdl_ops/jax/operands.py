"""Operands of a primitive: tensors, scalars that are used in every cell, and numbers that the program has in their place."""

from __future__ import annotations

NUMBERS = (int, float, complex)


def put_together(tensors, literals):
    """All operands in their order, each a tensor or a number."""
    numbers, rest = dict(literals), iter(tensors)
    return [numbers[n] if n in numbers else next(rest) for n in range(len(tensors) + len(numbers))]


def cell(operand, i):
    """An operand's element for the output's cell `i`: a scalar has one for all, and a dimension of extent 1 is read at 0."""
    return operand if isinstance(operand, NUMBERS) else operand.broadcast(*i)


def find_cells(tensors, literals):
    """A function from the output's cell to the elements of all operands.

    Operands of one shape are read where the cell is, and are said to be so where extents of 1 are the same.
    """
    operands = put_together(tensors, literals)
    ranked = [tensor for tensor in tensors if tensor.ndim]
    ones = {tuple(map(tensor.is_one, range(tensor.ndim))) for tensor in ranked}
    if len(ones) > 1:
        return lambda i: [cell(operand, i) for operand in operands]
    at = lambda operand, i: operand[i] if not isinstance(operand, NUMBERS) and operand.ndim else cell(operand, i)
    return lambda i: [at(operand, i) for operand in operands]


def numbered(name, count):
    """The names of index variables, as a pattern: `i0 i1`."""
    return " ".join(f"{name}{d}" for d in range(count))
