import numpy as np
import pytest

from tofu.errors import DescriptionError
from tofu.tdl import (
    Any,
    Max,
    Min,
    Opaque,
    Prod,
    Random,
    Sum,
    conjugate,
    describe,
    elementwise,
    imag,
    interpret,
    output,
    scatter,
    unread,
    unwritten,
)

random = np.random.default_rng(3)


def run(function, inputs, shapes, attributes=None, **options):
    return interpret(describe(function, ("operator",), **options), attributes or {}, inputs, shapes)


def test_fill_of_max_pooling():
    data = -1 - random.random(size=(4,))
    pool = lambda x: lambda y: Max(lambda k: x[y + k - 1], extents={"k": 3})  # noqa: E731
    padded = np.pad(data, 1, constant_values=-np.inf)
    expected = np.max([padded[k : k + 4] for k in range(3)], axis=0)
    np.testing.assert_array_equal(run(pool, [data], [(4,)], fill={"x": float("-inf")})[0], expected)
    assert run(pool, [data], [(4,)])[0].tolist() == [0, *expected[1:3], 0]


def test_reducers():
    x = random.normal(size=(3, 4))

    def reductions(x):
        return (
            lambda i: Sum(lambda k: x[i, k]),
            lambda i: Max(lambda k: x[i, k]),
            lambda i: Min(lambda k: x[i, k]),
            lambda i: Prod(lambda k: x[i, k]),
            lambda: Sum(lambda i, k: x[i, k]),
            lambda i, j: x[i, j] - Max(lambda k: x[i, k]),
            lambda i: Sum(lambda m: x[i, 0], extents={"m": 5}),
        )

    got = run(reductions, [x], [(3,)] * 4 + [(), (3, 4), (3,)])
    expected = x.sum(1), x.max(1), x.min(1), x.prod(1), x.sum(), x - x.max(1, keepdims=True), 5 * x[:, 0]
    for result, value in zip(got, expected, strict=True):
        np.testing.assert_allclose(result, value)


def test_user_defined_elementwise_functions():
    softsign = elementwise("softsign_of_the_test", lambda x: x / (1 + np.abs(x)))
    np.testing.assert_allclose(run(lambda x: lambda i: softsign(x[i]), [np.ones(2)], [(2,)])[0], 0.5)
    with pytest.raises(ValueError, match="exists already"):
        elementwise("exp", np.exp)


def test_merged_dimensions_and_scatter():
    x = random.normal(size=(2, 3, 4))
    (flat,) = run(lambda x: output("n (c w)", lambda n, c, w: x[n, c, w]), [x], [(2, 12)])
    np.testing.assert_array_equal(flat, x.reshape(2, 12))
    (spread,) = run(lambda x: scatter(lambda i, k: ((i + k - 1,), x[i]), extents={"k": 3}), [np.ones(4)], [(4,)])
    np.testing.assert_array_equal(spread, [2, 3, 3, 2])


def test_data_dependent_indices():
    table, index = random.normal(size=(5, 2)), np.array([4.0, 0.0, 4.0])
    (rows,) = run(lambda t, n: lambda i, e: t[Any(n[i]), e], [table, index], [(3, 2)])
    np.testing.assert_array_equal(rows, table[[4, 0, 4]])
    (near,) = run(lambda t, n: lambda i, e: t[Any(n[i], first=i, extent=3), e], [table, index % 3], [(3, 2)])
    np.testing.assert_array_equal(near, table[[1, 1, 3]])
    (gradient,) = run(lambda n, g: scatter(lambda i, e: ((Any(n[i]), e), g[i, e])), [index, np.ones((3, 2))], [(5, 2)])
    np.testing.assert_array_equal(gradient[:, 0], [1, 0, 0, 0, 2])


def test_complex_numbers():
    x = random.normal(size=(3, 4)) + 1j * random.normal(size=(3, 4))
    line = Opaque(np.fft.fft)

    def outputs(x):
        return (
            lambda i, j: 2j * x[i, j],
            lambda i, j: line(x[i, :])[j],
            lambda i: Sum(lambda j: conjugate(x[i, j])),
            scatter(lambda i, j: ((j,), x[i, j])),
            lambda i, j: imag(x[i, j]),
        )

    found = run(outputs, [x], [(3, 4), (3, 4), (3,), (4,), (3, 4)])
    for ours, theirs in zip(found, (2j * x, np.fft.fft(x), x.conj().sum(1), x.sum(0), x.imag), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-14)


def test_unwritten_outputs_and_unread_inputs():
    written, label = run(lambda x: (lambda i: x[i], unwritten("i")), [np.ones(2)], [(2,), (2,)])
    assert written.tolist() == [1, 1]
    assert np.isnan(label).all()
    shape_only = lambda x, y: lambda i: x[i] + unread(y[i])  # noqa: E731
    assert run(shape_only, [np.ones(2), np.full(2, np.nan)], [(2,)])[0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: lambda i: Opaque()(x[:])[i],
            "operator cannot be executed: the description does not show what opaque",
        ),
        (lambda x: lambda i: x[Any], "operator cannot be executed, because an index is Any; write Any"),
        (lambda x: lambda i: Random()(x[i]), "operator is random and cannot be executed"),
    ],
)
def test_opaque_and_random_descriptions_are_not_executed(function, message):
    with pytest.raises(DescriptionError, match=message):
        run(function, [np.ones(3)], [(3,)])
