"""Slices, shifts and updates move only the elements that a worker lacks, and have the numbers of one device."""

from itertools import cycle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tofu.jax
from tests.jax.comparison import assert_close, check_step
from tofu.errors import UnsupportedError
from tofu.jax.frontend.versions import in_double_precision

ROWS, COLUMNS = 48, 16
ROW = COLUMNS * 4
Y = jnp.asarray(np.random.default_rng(0).standard_normal((ROWS, COLUMNS)), "float32")
R = Y[5] * 2


def share(k):
    return ROW * (k - 1) // k


# Functions of an array that is split by rows, and the bytes that k workers transfer.
CONSTANT = {
    "last row": (lambda y: y[-1:] * 2, share),
    "a row by number": (lambda y: y[3] * 2, share),
    "a row by dynamic_slice": (lambda y: lax.dynamic_slice(y, (ROWS + 7, 0), (1, COLUMNS)) * 2, share),
    "a column": (lambda y: y[:, 0] * 2, lambda k: 0),
    "roll": (lambda y: jnp.roll(y, 1, 0) * 2, lambda k: k * ROW),
    "roll of both dimensions": (lambda y: jnp.roll(y, (3, -2), (0, 1)) * 2, lambda k: 3 * k * ROW),
    "gradient of roll": (lambda y: jax.grad(lambda y: jnp.sin(jnp.roll(y, 1, 0)).sum())(y), lambda k: 2 * k * ROW),
    "shift": (lambda y: y.at[:-1].set(y[1:] * 2), lambda k: (k - 1) * ROW),
    "shift by two, added": (lambda y: y.at[2:].add(y[:-2] * 2), lambda k: 2 * (k - 1) * ROW),
    "a row is set": (lambda y: y.at[3].set(7.0), lambda k: 0),
    "the last row is added to": (lambda y: y.at[-1].add(R), lambda k: 0),
    "a block is multiplied": (lambda y: y.at[2:5, 3:7].mul(2.0), lambda k: 0),
    "a large block": (lambda y: y.at[2:20, 3:15].max(0.2), lambda k: 0),
    "every second row": (lambda y: y[::2] * 2, lambda k: 0),
    "odd rows and columns": (lambda y: y[1::2, 1::2] * 2, lambda k: 0),
    "pairs": (lambda y: y[:-1:2] + y[1::2], lambda k: 0),
    "every second element of a row": (lambda y: y[3, ::2] * 2, lambda k: 2 * ROW),
    "every second element of some rows": (lambda y: y[2:5, 1::2] * 2, lambda k: 4 * ROW),
    "every second row is set": (lambda y: y.at[::2].set(1.0), lambda k: 0),
    "odd rows are added to": (lambda y: y.at[1::2].add(y[::2]), lambda k: 0),
    "rows between zeros": (lambda y: lax.pad(y, 0.0, ((1, 2, 3), (0, 1, 1))) * 2, lambda k: 0),
    "a diagonal by data": (lambda y: y[jnp.arange(ROWS), jnp.abs(y[:, 0] * 9).astype("int32")], lambda k: 0),
    "rows by arange": (lambda y: y[jnp.arange(ROWS)] * 2, lambda k: 0),
    "one element of each row is set": (
        lambda y: y.at[jnp.arange(ROWS), jnp.abs(y[:, 0] * 9).astype("int32")].set(7.0),
        lambda k: 0,
    ),
    "outside": (lambda y: y.at[99].set(7.0), lambda k: 0),
    "outside, clipped": (lambda y: y.at[99].min(-7.0, mode="clip"), lambda k: 0),
}


@pytest.mark.parametrize(
    ("name", "workers"), [*((name, 8) for name in CONSTANT), *((name, 3) for name in [*CONSTANT][::3])]
)
def test_windows_at_constant_positions(name, workers):
    function, expected = CONSTANT[name]
    made = check_step(function, workers, Y, rtol=0, atol=0, hints={"y": 0})
    if COLUMNS % workers == 0:
        assert made.plan.communication_bytes <= expected(workers)


def smooth(y):
    """Return an array with a step of the heat equation in both dimensions."""
    inner = y[1:-1, 1:-1]
    return y.at[1:-1, 1:-1].set(inner + 0.1 * (y[2:, 1:-1] + y[:-2, 1:-1] + y[1:-1, 2:] + y[1:-1, :-2] - 4 * inner))


def upwind(y, factor):
    return y.at[3:].mul(jnp.where(y[3:] > 0, y[:-3], jnp.sin(factor)))


# Functions of an array that is split by rows, and the rows that each worker but one transfers to and from a neighbor.
STENCILS = {
    "sum of neighbors": (lambda y: y.at[1:-1].add(y[:-2] + y[2:]), 2),
    "heat equation": (smooth, 2),
    "four steps": (lambda y: jax.lax.fori_loop(0, 4, lambda _, y: smooth(y), y), 8),
    "upwind, rows in reverse": (lambda y: upwind(y, lax.rev(y[3:], (1,))), 3),
    "upwind, rows of the reverse": (lambda y: upwind(y, lax.slice(lax.rev(y, (1,)), (3, 0), y.shape)), 3),
    "quotients, zeros outside": (lambda y: y.at[:-2].set(y[2:] / y[1:-1]), 3),
    "dynamic update": (lambda y: lax.dynamic_update_slice(y, (y[:-2] - y[2:]).astype("float32"), (1, 0)), 2),
    "a row for all": (lambda y: y.at[1:].add(y[:-1] * jnp.sin(y[:1]) + jnp.arange(1, ROWS)[:, None]), 3),
    "differences": (lambda y: jnp.concatenate([y[:1], y[2:] - y[:-2], y[-1:]]), 2),
    "a row before another array": (lambda y: jnp.concatenate([y[-1:], jnp.sin(y)[:-1]]), 2),
    "pairs and a row": (lambda y: jnp.concatenate([y[:1], y[2::2] * y[1:-2:2]]), 1),
    "sums of all rows before": (lambda y: lax.associative_scan(jnp.add, y), 8),
    "recurrence": (lambda y: lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (y, y + 1))[1], 11),
    "counts": (lambda y: y.astype(int).at[2:].max(y.astype(int)[:-2] // 2 + jnp.arange(COLUMNS)), 2),
}


@pytest.mark.parametrize(("name", "workers"), list(zip(STENCILS, cycle([4, 6]), strict=False)))
def test_stencils_move_halos(name, workers):
    function, rows = STENCILS[name]
    made = check_step(function, workers, Y, rtol=1e-6, atol=1e-6, hints={"y": 0})
    assert made.plan.communication_bytes <= rows * (workers - 1) * ROW


@pytest.mark.parametrize("workers", [3, 8])
@pytest.mark.parametrize("size", [1, 5, ROWS])
def test_updates_at_positions_that_the_step_computes(size, workers):
    def update(y, new, at):
        return lax.dynamic_update_slice(y, new, (at, 0)) * 2

    new = jnp.asarray(np.random.default_rng(1).standard_normal((size, COLUMNS)), "float32")
    made = tofu.jax.partition(update, workers, (Y, new, jnp.int32(0)), hints={"y": 0})
    for at in (0, 3, 8, 20, ROWS, -3, -99):
        np.testing.assert_array_equal(made(Y, new, jnp.int32(at)), jax.jit(update)(Y, new, jnp.int32(at)))
    assert made.plan.communication_bytes <= (workers - 1) * size * ROW


@pytest.mark.parametrize("workers", [3, 8])
@pytest.mark.parametrize("size", [1, 5])
def test_slices_at_positions_that_the_step_computes(size, workers):
    def read(y, at):
        return lax.dynamic_slice(y, (at, at), (size, 6)) + y.sum()

    made = tofu.jax.partition(read, workers, (Y, jnp.int32(0)), hints={"y": 0})
    for at in (0, 3, 8, 20, ROWS, -3, -99):
        np.testing.assert_allclose(made(Y, jnp.int32(at)), jax.jit(read)(Y, jnp.int32(at)), rtol=1e-5)


def test_slices_of_a_batch_stay_inside():
    read = lambda y, at: jax.vmap(lambda row: lax.dynamic_slice(row, (at,), (8,)))(y) * 2  # noqa: E731
    for at in (5, ROWS, -3, -99):
        check_step(read, 4, Y[:3, :9], jnp.int32(at), rtol=0, atol=0)


def draw_index(draws, extent, count):
    """Return a random index, and True if it is data: a slice, a number, a range, or an array of positions."""
    kind = draws.integers(6)
    if kind == 0:
        return draws.integers(-extent, extent, size=count).astype("int32"), True
    if kind == 1:
        return jnp.arange(count) * min(2, (extent - 1) // max(count - 1, 1)), False
    if kind == 2:
        return int(draws.integers(-extent, extent)), False
    begin, step = sorted(draws.integers(-extent, extent, size=2)), int(draws.choice([-2, -1, 1, 2, 3]))
    return slice(*(begin if step > 0 else begin[::-1]), step) if kind == 3 else slice(None, None, step), False


UPDATES = (
    lambda at, new: at.set(new),
    lambda at, new: at.add(new),
    lambda at, new: at.multiply(new),
    lambda at, new: at.max(-new),
)


@pytest.mark.parametrize("seed", range(8))
def test_random_positions(seed):
    draws = np.random.default_rng(seed)
    shape = [int(n) for n in draws.choice([4, 6, 8, 12], size=draws.integers(1, 4))]
    count, mode = int(draws.integers(1, 5)), str(draws.choice(["clip", "fill", "drop"]))
    indices, are_data = zip(*(draw_index(draws, extent, count) for extent in shape), strict=True)
    x = jnp.asarray(draws.standard_normal(shape), "float32")

    def find(data):
        given = iter(data)
        return tuple(next(given) if is_data else index for index, is_data in zip(indices, are_data, strict=True))

    def step(x, data):
        at = find(data)
        read = x.at[at].get(mode=mode)
        new = jnp.broadcast_to(read.sum() * 0.1, read.shape)
        gradient = jax.grad(lambda x: (x.at[at].get(mode=mode) ** 2).sum())(x)
        return read * 2, gradient, *(update(x.at[at], new) * 2 for update in UPDATES)

    data = [jnp.asarray(index) for index, is_data in zip(indices, are_data, strict=True) if is_data]
    check_step(step, int(draws.choice([2, 3, 4])), x, data, rtol=1e-4)


@pytest.mark.parametrize(
    ("workers", "extent", "room"), [(2, 1, (0, 2, 0)), (2, 2, (0, 3, 0)), (4, 5, (0, 10, 0)), (3, 2, (4, 0, 1))]
)
def test_a_part_that_is_only_padding_has_its_number(workers, extent, room):
    check_step(lambda x: lax.pad(x, -1.0, (room,)), workers, jnp.ones(extent), rtol=0, atol=0, cache=False)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "float32"])
@pytest.mark.parametrize("join", [lax.max, lax.min])
@pytest.mark.parametrize("dimension", [0, 1])
def test_windows_beyond_the_border_have_neutral_numbers(join, dtype, dimension):
    numbers = np.array([0, 1] if dtype == "bool" else [3, 100], dtype)
    x = jnp.asarray(np.random.default_rng(0).choice(numbers, (12, 10)))
    least, greatest = (False, True) if dtype == "bool" else (-np.inf, np.inf)
    if dtype in ("int32", "uint8"):
        least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max

    def pool(x):
        neutral = np.asarray(least if join is lax.max else greatest, dtype)
        return lax.reduce_window(x, neutral, join, (3, 2), (2, 1), ((1, 1), (0, 1)))

    check_step(pool, 2, x, rtol=0, atol=0, hints={"x": dimension})


@pytest.mark.parametrize("padding", ["SAME", "VALID", ((1, 0), (2, 1), (0, 0))])
@pytest.mark.parametrize("dimension", [0, 1])
def test_windows_of_a_reducer_without_a_neutral_number(padding, dimension):
    """A window over the border counts the initial value once, with all of its 64 bits."""
    with in_double_precision():
        x = jnp.arange(384).reshape(12, 8, 4)

        def pool(x):
            return lax.reduce_window(x, jnp.int64(2**53 + 1), lambda a, b: a + 2 * b, (3, 2, 1), (1, 1, 1), padding)

        made = tofu.jax.partition(pool, 4, (x,), hints={"x": dimension})
        np.testing.assert_array_equal(made(x), pool(x))


def test_padding_with_integers_of_64_bits():
    def pad(x):
        return lax.pad(x, np.asarray(np.iinfo(x.dtype).max, x.dtype), ((2, 3, 0),)), lax.cummin(x)

    with in_double_precision():
        for x in (jnp.arange(12), jnp.arange(12, dtype="uint64")):
            made = tofu.jax.partition(pad, 4, (x,), hints={"x": 0})
            jax.tree.map(np.testing.assert_array_equal, made(x), pad(x))
        with pytest.raises(UnsupportedError, match="padding with 1152921504606846977"):
            tofu.jax.partition(lambda x: lax.pad(x, 2**60 + 1, ((2, 3, 0),)), 2, (jnp.arange(12),))


def gather(x, indices, offset, sizes, looked_up=(0,)):
    collapsed = tuple(d for d in range(2) if sizes[d] == 1)
    numbers = lax.GatherDimensionNumbers((offset,), collapsed, looked_up)
    return lax.gather(x, indices, numbers, sizes)


@pytest.mark.parametrize("seed", range(12))
def test_random_pads_of_slices(seed):
    draws = np.random.default_rng(seed)
    x, number = jnp.asarray(draws.standard_normal((12, 6)), "float32"), jnp.float32(draws.choice([0.0, -0.0, 3.5]))
    begin, end = sorted(int(n) for n in draws.choice(13, 2, replace=False))
    rooms = [(*(int(n) for n in draws.choice([-2, 0, 1, 9], 2)), int(draws.choice(2, p=[0.8, 0.2]))) for _ in range(2)]

    def step(x):
        first, middle, last = jnp.split(x * 2, (begin, end)) if seed % 2 else (x[:begin], x[begin:end], x[end:])
        pieces = [piece for piece in (first, middle[:, :5], last) if len(piece) > 4]
        return [lax.pad(piece, number, rooms) for piece in pieces], first.sum()

    check_step(step, int(draws.choice([2, 3, 4])), x, rtol=1e-6, hints={"x": 0})


UNUSUAL = {
    "one index in a vector": lambda x: gather(x, jnp.arange(1), 0, (1, 4)),
    "indices that count along one element": lambda x: gather(x, lax.broadcasted_iota("int32", (3, 1), 1), 1, (1, 4)),
    "a repeated row": lambda x: gather(x * 2, jnp.zeros((6, 0), int), 1, (1, 4), ()),
    "parts of rows": lambda x: lax.gather(
        x.reshape(2, 3, 4),
        x[:4, :2].astype(int),
        lax.GatherDimensionNumbers((1,), (0, 1), (0, 1)),
        (1, 1, 2),
        mode="clip",
    ),
    "positions plus a scalar": lambda x: x[lax.add(jnp.arange(4), lax.squeeze(lax.iota("int32", 1), [0]))],
    "differences of positions": lambda x: x[jnp.arange(3)[:, None] - jnp.arange(3) + 2],
    "slices that span a part of another dimension": lambda x: gather(x, jnp.arange(6)[:, None], 1, (1, 2)),
    "updates of a part of another dimension": lambda x: lax.scatter(
        x, jnp.arange(3)[:, None] * 2, x[:3, :2] + 9, lax.ScatterDimensionNumbers((1,), (0,), (0,))
    ),
    "an update of everything": lambda x: lax.dynamic_update_slice(x, x * 2, (0, 0)),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_indices(name):
    check_step(UNUSUAL[name], 2, jnp.arange(24.0).reshape(6, 4), rtol=0, atol=0)


def test_gradients_of_windows():
    def loss(y, r, at):
        y = y.at[:-1].add(y[1:] * 2).at[3].set(r)
        return (jnp.roll(lax.dynamic_update_slice(y, y[2:5] * 3, (at, 0)), 2, 0)[-5:] ** 2).sum()

    gradient = jax.grad(loss, argnums=(0, 1))
    made = tofu.jax.partition(gradient, 4, (Y, R, jnp.int32(0)), hints={"y": 0})
    for at in (0, 7, 21):
        assert_close(made(Y, R, jnp.int32(at)), jax.jit(gradient)(Y, R, jnp.int32(at)))


@pytest.mark.parametrize("seed", range(16))
def test_random_concatenations(seed):
    draws = np.random.default_rng(seed)
    extent, stride = int(draws.choice([8, 12, 13])), int(draws.integers(1, 4))
    rest = int(draws.integers(1, extent // 2))
    begin, first = int(draws.integers(rest + 1)), int(draws.integers(stride))
    x, y = (jnp.asarray(draws.standard_normal((n, 6)), "float32") for n in (extent, extent * stride - first))
    single, size = int(draws.integers(len(y))), extent - rest
    at, order = int(draws.integers(len(y) - stride * (size - 1))), draws.permutation(3 if rest > 1 else 2)

    def step(x, y):
        window = x[begin : begin + size] * y[at : at + stride * (size - 1) + 1 : stride] + x[:size]
        pieces = [y[single : single + 1], jnp.tanh(window), *([x[-rest + 1 :]] if rest > 1 else [])]
        return jnp.concatenate([pieces[n] for n in order]) * 2

    workers = int(draws.choice([2, 3, 4, 8]))
    check_step(step, workers, x, y, atol=1e-6, hints={"x": 0} if extent % workers == 0 else {})
