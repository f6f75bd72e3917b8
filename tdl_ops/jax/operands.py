"""Read the operands of a JAX operation, which are tensors, scalars, or numbers in the program (literals)."""

NUMBERS = (int, float, complex)
AXES = [f"i{d}" for d in range(8)]
"""Index variables of a result's dimensions, for descriptions of any rank."""


def put_together(tensors, literals):
    numbers, rest = dict(literals), iter(tensors)
    return [numbers[n] if n in numbers else next(rest) for n in range(len(tensors) + len(numbers))]


def cell(operand, i):
    """Return the operand's element for index `i` of the output. Broadcast scalars and dimensions of extent 1."""
    return operand if isinstance(operand, NUMBERS) else operand.broadcast(*i)


def find_cells(tensors, literals):
    """Return a function from an index of the output to the elements of all operands."""
    operands = put_together(tensors, literals)
    ranked = [tensor for tensor in tensors if tensor.ndim]
    ones = {tuple(map(tensor.is_one, range(tensor.ndim))) for tensor in ranked}
    if len(ones) > 1:
        return lambda i: [cell(operand, i) for operand in operands]
    at = lambda operand, i: operand[i] if not isinstance(operand, NUMBERS) and operand.ndim else cell(operand, i)
    return lambda i: [at(operand, i) for operand in operands]


def numbered(name, count):
    """Return numbered names: "i0 i1" for `name` "i" and `count` 2."""
    return " ".join(f"{name}{d}" for d in range(count))
