from dataclasses import replace

from tests.numpy_engine.operators import like_first, operator
from tests.search.written_steps import Writer, recurrence
from tofu.tdl import Sum

SMALL, LARGE = 4, 2**16  # bytes of an element: tensors of small elements may be replicated


@operator(like_first)
def add_three(a, b, c):
    return lambda i, j: a[i, j] + b[i, j] + c[i, j]


@operator(lambda x: [x[:1]])
def sum_rows(x):
    return lambda i: Sum(lambda j: x[i, j])


@operator(like_first)
def scale_rows(x, factors):
    return lambda i, j: x[i, j] * factors[i]


class RandomWriter(Writer):
    def __init__(self, rng, items):
        super().__init__()
        self.rng, self.items = rng, items

    def resize(self, tensor):
        self.tensors[tensor] = replace(self.tensors[tensor], item_bytes=self.rng.choice(self.items))
        return tensor

    def matrix(self, rows=None, columns=None):
        rows, columns = rows or self.draw_extent(), columns or self.draw_extent()
        return self.resize(self.input(f"x{len(self.tensors)}", rows, columns))

    def draw_extent(self):
        return self.rng.choice((2, 3, 4, 4, 6, 8, 8, 9))

    def apply(self, op, *inputs, **rest):
        return self.resize(super().apply(op, *inputs, **rest))

    def draw_operator(self, matrices):
        rng, x = self.rng, self.rng.choice(matrices)
        shape = self.tensors[x].shape
        alike = [t for t in matrices if self.tensors[t].shape == shape]
        kind = rng.choice(("product", "tanh", "tanh", "transpose", "add", "add", "add_three", "scale_rows"))
        if kind == "product":
            fitting = [t for t in matrices if self.tensors[t].shape[0] == shape[1]]
            other = rng.choice(fitting) if fitting and rng.random() < 0.5 else self.matrix(shape[1])
            return self.apply(kind, x, other)
        if kind in ("tanh", "transpose"):
            return self.apply(kind, x)
        if kind == "scale_rows":
            return self.apply(kind, x, self.apply("sum_rows", rng.choice(alike)))
        draw_operand = lambda: rng.choice(alike) if rng.random() < 0.5 else self.matrix(*shape)  # noqa: E731
        others = [draw_operand() for _ in range(2 if kind == "add_three" else 1)]
        return self.apply(kind, x, *others)


def draw_graph(rng):
    if rng.random() < 0.1:
        graph = recurrence(rng.randint(2, 4), batch=rng.choice((4, 6)), width=rng.choice((4, 8)))
        return replace(graph, tensors=tuple(replace(t, item_bytes=LARGE) for t in graph.tensors))
    write = RandomWriter(rng, rng.choice(((SMALL,), (LARGE,), (LARGE,), (SMALL, LARGE))))
    matrices = [write.matrix()]
    for _ in range(rng.randint(1, 4)):
        matrices.append(write.draw_operator(matrices))
    read = {t for operator in write.operators for t in operator.inputs}
    write.outputs = [t for t in matrices if t not in read or rng.random() < 0.2]
    return write.graph()
