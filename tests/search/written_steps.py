"""Training steps written by hand, without a framework and, by default, without phases and links."""

from tofu.graph import Graph, Operator, Phase, Tensor, TensorKind
from tofu.tdl import Registry, Sum, tanh

OPERATORS = Registry()


@OPERATORS.op
def product(a, b, *, turned=(False, False)):
    left, right = turned
    return lambda i, j: Sum(lambda k: a[(k, i) if left else (i, k)] * b[(j, k) if right else (k, j)])


@OPERATORS.op
def activate(x):
    return lambda i, j: tanh(x[i, j])


@OPERATORS.op
def scale_by_slope(grad, active):
    return lambda i, j: grad[i, j] * (1 - active[i, j] ** 2)


@OPERATORS.op
def add(a, b):
    return lambda i, j: a[i, j] + b[i, j]


@OPERATORS.op
def subtract(a, b):
    return lambda i, j: a[i, j] - b[i, j]


@OPERATORS.op
def add_share(a, b, *, share):
    return lambda i, j: a[i, j] + share * b[i, j]


class WrittenOperators:
    descriptions = OPERATORS

    def infer_shapes(self, op, attributes, inputs):
        return None

    def draws_undescribed(self, operator, is_whole):
        return False


class Writer:
    def __init__(self):
        self.tensors, self.operators, self.phase = [], [], Phase.FORWARD

    def variable(self, name, rows, columns, kind=TensorKind.PARAMETER):
        self.tensors.append(Tensor(name, (rows, columns), "float32", 4, kind))
        return len(self.tensors) - 1

    def apply(self, op, *inputs, **rest):
        attributes = {name: rest.pop(name) for name in ("turned", "share") if name in rest}
        first, second = (self.tensors[t].shape for t in (inputs[0], inputs[-1]))
        left, right = attributes.get("turned", (False, False))
        shape = (first[1 if left else 0], second[0 if right else 1]) if op == "product" else first
        name = f"{op}{len(self.operators)}"
        output = self.variable(f"{name}_output", *shape, kind=TensorKind.INTERMEDIATE)
        self.operators.append(Operator(name, op, attributes, inputs, (output,), self.phase, **rest))
        return output

    def graph(self, outputs, **rest):
        return Graph(tuple(self.tensors), tuple(self.operators), tuple(outputs), **rest)


def perceptron(updates, sizes=(256, 384, 512, 128)):
    """Return two layers with momentum, updated by operators "in the step" or by an optimizer "after it"."""
    write = Writer()
    batch, n_in, n_hidden, n_out = sizes
    x = write.variable("x", batch, n_in, TensorKind.INPUT)
    y = write.variable("y", batch, n_out, TensorKind.INPUT)
    weights = [write.variable("w0", n_in, n_hidden), write.variable("w1", n_hidden, n_out)]
    momenta = [write.variable(f"m{n}", *write.tensors[w].shape) for n, w in enumerate(weights)]
    hidden = write.apply("activate", write.apply("product", x, weights[0]))
    error = write.apply("subtract", write.apply("product", hidden, weights[1]), y)
    d_hidden = write.apply("product", error, weights[1], turned=(False, True))
    d_before = write.apply("scale_by_slope", d_hidden, hidden)
    gradients = [
        write.apply("product", x, d_before, turned=(True, False)),
        write.apply("product", hidden, error, turned=(True, False)),
    ]
    if updates == "after it":
        return write.graph([error], gradients=dict(zip(weights, gradients, strict=True)), updated=frozenset(weights))
    next_values = {}
    for weight, momentum, gradient in zip(weights, momenta, gradients, strict=True):
        next_values[momentum] = write.apply("add_share", gradient, momentum, share=0.9)
        next_values[weight] = write.apply("add_share", weight, next_values[momentum], share=-0.1)
    return write.graph([error], next_values=next_values)


def recurrence(steps, has_phases=False, has_links=False, batch=128, width=192):
    write = Writer()
    inputs = [write.variable(f"x{t}", batch, width, TensorKind.INPUT) for t in range(steps)]
    w_in, w_state = write.variable("w_in", width, width), write.variable("w_state", width, width)
    states = [write.variable("start", batch, width, TensorKind.INPUT)]
    for x in inputs:
        products = write.apply("product", x, w_in), write.apply("product", states[-1], w_state)
        states.append(write.apply("activate", write.apply("add", *products)))
    link = lambda t, number: {"forward": 4 * t + number} if has_links else {}  # noqa: E731
    write.phase = Phase.BACKWARD if has_phases else Phase.FORWARD
    grad, sums = states[-1], {}
    for t in reversed(range(steps)):
        before = write.apply("scale_by_slope", grad, states[t + 1], **link(t, 3))
        for number, (weight, read) in enumerate(((w_in, inputs[t]), (w_state, states[t]))):
            term = write.apply("product", read, before, turned=(True, False), **link(t, number))
            sums[weight] = write.apply("add", sums[weight], term, sums_gradients=True) if weight in sums else term
        grad = write.apply("product", before, w_state, turned=(False, True), **link(t, 1))
    return write.graph([states[-1]], gradients=sums, updated=frozenset(sums))
