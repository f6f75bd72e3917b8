"""Element-wise operators of two tensors of equal shape, `add_n` and `where`, and their gradients."""

from tdl_ops.mxnet import op
from tofu.tdl import floor, hypot, log, logical_and, logical_or, logical_xor, maximum, minimum, mod, power, where

# Operator names without their prefix. `broadcast.py` describes the variants that broadcast.
FUNCTIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "mod": mod,
    "power": power,
    "maximum": maximum,
    "minimum": minimum,
    "hypot": hypot,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "lesser": lambda a, b: a < b,
    "lesser_equal": lambda a, b: a <= b,
    "logical_and": logical_and,
    "logical_or": logical_or,
    "logical_xor": logical_xor,
}
ARITHMETIC = ("add", "sub", "mul", "div")

# Functions of (head gradient, a, b) that return the gradients by a and by b.
GRADIENTS = {
    "mul": (lambda d, a, b: d * b, lambda d, a, b: d * a),
    "div": (lambda d, a, b: d / b, lambda d, a, b: -d * a / (b * b)),
    "mod": (lambda d, a, b: d, lambda d, a, b: -d * floor(a / b)),
    "power": (lambda d, a, b: d * b * power(a, b - 1), lambda d, a, b: d * power(a, b) * log(a)),
    "maximum": (lambda d, a, b: where(a >= b, d, 0.0), lambda d, a, b: where(a < b, d, 0.0)),
    "minimum": (lambda d, a, b: where(a <= b, d, 0.0), lambda d, a, b: where(a > b, d, 0.0)),
    "hypot": (lambda d, a, b: d * a / hypot(a, b), lambda d, a, b: d * b / hypot(a, b)),
}


def _describe(function):
    return lambda lhs, rhs: lambda *i: function(lhs[i], rhs[i])


def _describe_gradients(by_lhs, by_rhs):
    def description(d_out, lhs, rhs):
        return lambda *i: by_lhs(d_out[i], lhs[i], rhs[i]), lambda *i: by_rhs(d_out[i], lhs[i], rhs[i])

    return description


for _name, _function in FUNCTIONS.items():
    op(f"elemwise_{_name}" if _name in ARITHMETIC else f"_{_name}")(_describe(_function))
for _name, _gradients in GRADIENTS.items():
    op(f"_backward_{_name}")(_describe_gradients(*_gradients))
op("_grad_add")(_describe(FUNCTIONS["add"]))


@op("_backward_sub")
def backward_sub(d_out):
    return lambda *i: d_out[i], lambda *i: -d_out[i]


@op("add_n")
def add_n(*terms):
    return lambda *i: sum((term[i] for term in terms[1:]), terms[0][i])


@op("where")
def choose(condition, x, y):
    return lambda *i: where(condition[i[: condition.ndim]] != 0, x[i], y[i])


@op("_backward_where")
def backward_choose(d_out, condition):
    chosen = lambda i: condition[i[: condition.ndim]] != 0
    return lambda *i: where(chosen(i), d_out[i], 0.0), lambda *i: where(chosen(i), 0.0, d_out[i])
