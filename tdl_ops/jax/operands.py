"""Operands of a primitive: tensors, scalars, and literals of the program."""

NUMBERS = (int, float, complex)


def put_together(tensors, literals):
    """Return all operands in order, each a tensor or a number."""
    numbers, rest = dict(literals), iter(tensors)
    return [numbers[n] if n in numbers else next(rest) for n in range(len(tensors) + len(numbers))]


def cell(operand, i):
    """Return an operand's element for the output's index `i`. Scalars and dimensions of extent 1 are broadcast."""
    return operand if isinstance(operand, NUMBERS) else operand.broadcast(*i)


def find_cells(tensors, literals):
    """Return a function from an output's index to the elements of all operands.

    Operands of equal shape are read at that index, so that the analysis knows that extents of 1 agree.
    """
    operands = put_together(tensors, literals)
    ranked = [tensor for tensor in tensors if tensor.ndim]
    ones = {tuple(map(tensor.is_one, range(tensor.ndim))) for tensor in ranked}
    if len(ones) > 1:
        return lambda i: [cell(operand, i) for operand in operands]
    at = lambda operand, i: operand[i] if not isinstance(operand, NUMBERS) and operand.ndim else cell(operand, i)
    return lambda i: [at(operand, i) for operand in operands]


def numbered(name, count):
    """Return the names of index variables as a pattern, such as `i0 i1`."""
    return " ".join(f"{name}{d}" for d in range(count))
