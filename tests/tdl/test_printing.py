from tofu.tdl import Any, Max, Opaque, Random, Sum, describe, exp, scatter, trace, unread, unwritten, where


def print_description(function, inputs, ranks, attributes=None):
    return str(trace(describe(function), attributes or {}, inputs, ranks))


def test_several_outputs_scatter_and_unwritten():
    def gradient(grad, weight, label):
        return (
            scatter(lambda b, y, k: ((b, y + k - 1), grad[b, y] * weight[k])),
            lambda k: Sum(lambda b, y: grad[b, y]) + unread(weight[k]),
            unwritten("b *s"),
        )

    assert print_description(gradient, [(2, 8), (3,), (2,)], [2, 1, 2]) == (
        "gradient(grad, weight, label)\n"
        "    output0[b, y + k - 1] += grad[b, y] * weight[k] for b, y, k\n"
        "    output1[k] = Sum(b, y: grad[b, y]) + unread(weight[k])\n"
        "    output2[b, s0] is not written"
    )


def test_precedence():
    def f(x, y):
        return lambda i: (x[i] + y[i]) * 2 - (x[i] - (y[i] - 1)) / -(x[i] ** 2) + exp(-x[i])

    assert print_description(f, [(2,), (2,)], [1]) == (
        "f(x, y)\n    output[i] = (x[i] + y[i]) * 2 - (x[i] - (y[i] - 1)) / -x[i] ** 2 + exp(-x[i])"
    )


def test_indices_choices_and_reductions():
    def f(x, index):
        chosen = Opaque(name="sort")(x[:, 0])
        return (
            lambda i: x[Any(index[i]), 1] + x[Any, 0] + x[Any(index[i], first=2 * i, extent=2), 0],
            lambda i: where((x[i, 0] > 0.5) & (index[i] == i), Random()(x[i, 1]), chosen[i]),
            lambda i: (
                Max(lambda k: x[x.shape[0] - 1 - k, 0], extents={"k": x.shape[0]}) / x.shape[0]
                + i * (2 * i + 1.5)
                + index[i]
            ),
        )

    assert print_description(f, [(3, 2), (3,)], [1, 1, 1]).splitlines()[1:] == [
        "    output0[i] = x[Any(index[i]), 1] + x[Any, 0] + x[Any(index[i], 2*i, 2), 0]",
        "    output1[i] = where((x[i, 0] > 0.5) & (index[i] == i), random(x[i, 1]), sort(x[:, 0])[i])",
        "    output2[i] = Max(k: x[-k + x.shape[0] - 1, 0]) / x.shape[0] + i * (2*i + 1.5) + index[i]",
    ]
