"""Training steps written by hand and, by default, without phases and links."""

from tests.numpy_engine.front_end import NumpyFrontEnd, NumpyStep
from tofu.graph import Phase
from tofu.search import find_strategies, make_problem


class Writer(NumpyStep):
    """Step whose operators are named by their kinds and positions."""

    def apply(self, op, *inputs, **rest):
        return super().apply(op, f"{op}{len(self.operators)}", *inputs, **rest)


def pose(graph, factors=(2, 2), **rest):
    return make_problem(graph, find_strategies(graph, NumpyFrontEnd()), factors, **rest)


def apply_tanh(shape, times=1):
    write = Writer()
    write.outputs = [write.input("x", *shape)]
    for _ in range(times):
        write.outputs = [write.apply("tanh", *write.outputs)]
    return write.graph()


def recurrence(steps, has_phases=False, has_links=False, batch=128, width=192):
    write = Writer()
    inputs = [write.input(f"x{t}", batch, width) for t in range(steps)]
    w_in, w_state = write.variable("w_in", width, width), write.variable("w_state", width, width)
    states = [write.input("start", batch, width)]
    for x in inputs:
        products = write.apply("product", x, w_in), write.apply("product", states[-1], w_state)
        states.append(write.apply("tanh", write.apply("add", *products)))
    link = lambda op, number: {"forward": f"{op}{number}"} if has_links else {}  # noqa: E731
    write.phase = Phase.BACKWARD if has_phases else Phase.FORWARD
    grad, sums = states[-1], {}
    for t in reversed(range(steps)):
        before = write.apply("tanh_backward", grad, states[t + 1], **link("tanh", 4 * t + 3))
        for number, (weight, read) in enumerate(((w_in, inputs[t]), (w_state, states[t]))):
            term = write.apply("product", read, before, turned=(True, False), **link("product", 4 * t + number))
            sums[weight] = write.apply("add", sums[weight], term, sums_gradients=True) if weight in sums else term
        grad = write.apply("product", before, w_state, turned=(False, True), **link("product", 4 * t + 1))
    write.outputs, write.gradients, write.updated = [states[-1]], sums, set(sums)
    return write.graph()
