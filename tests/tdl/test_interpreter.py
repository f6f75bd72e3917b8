import numpy as np
import pytest

from tofu.errors import DescriptionError
from tofu.tdl import (
    Any,
    Max,
    Opaque,
    Random,
    Sum,
    conjugate,
    describe,
    elementwise,
    imag,
    interpret,
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


def test_user_defined_elementwise_functions():
    softsign = elementwise("softsign_of_the_test", lambda x: x / (1 + np.abs(x)))
    np.testing.assert_allclose(run(lambda x: lambda i: softsign(x[i]), [np.ones(2)], [(2,)])[0], 0.5)
    with pytest.raises(ValueError, match="exists already"):
        elementwise("exp", np.exp)


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
        (lambda x: lambda i: Opaque()(x[:])[i], "operator cannot be executed: the description does not show what"),
        (lambda x: lambda i: x[Any], "operator cannot be executed, because an index is Any; write Any"),
        (lambda x: lambda i: Random()(x[i]), "operator is random and cannot be executed"),
    ],
)
def test_opaque_and_random_descriptions_are_not_executed(function, message):
    with pytest.raises(DescriptionError, match=message):
        run(function, [np.ones(3)], [(3,)])
