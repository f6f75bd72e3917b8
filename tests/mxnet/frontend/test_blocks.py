"""MXNet's operators along a split dimension exchange one partial result of each worker, and have the numbers of one device."""

from dataclasses import replace
from itertools import cycle

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.equality.comparison import compare_split
from tests.models.plain import PlainModel
from tofu.mxnet.compare.runs import run_step
from tofu.mxnet.frontend.blocks import name_blocks
from tofu.plan import Plan
from tofu.simulation import read_machine
from tofu.simulation.advise import WITHIN_MEMORY

S = mx.sym
LINES = 5
LENGTH = 48
SLICE, PAIR = 4 * LINES, 8 * LINES  # a partial result of all lines; a candidate's value and position
ROWS = np.random.RandomState(0).standard_normal((LENGTH, LINES))


def numpy_symbol(name, *args, **attributes):
    return lambda x: getattr(S.np, name)(x.as_np_ndarray(), *args, **attributes).as_nd_ndarray()


def compare(function, workers, values, hints=None, **options):
    x = S.Variable("x", dtype=values.dtype.name)
    symbol = S.Group([S.BlockGrad(S.identity(output)) for output in function(x)])
    split = tofu.partition(symbol, workers, hints={"x": 0} if hints is None else hints, **options)
    runs = [run_step(one, {"x": values.shape}, {"x": values}, {"x": "null"}) for one in (symbol, split)]
    whole, found = (list(run.inference.outputs.values()) for run in runs)
    for ours, theirs in zip(found, whole, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))
    return split.plan


# Functions of an array that is split along its lines, and the bytes of a partial result.
ALONG = {
    "cumsum": (lambda x: S.cumsum(S.round(x), axis=0), SLICE),
    "cumsum in double precision": (lambda x: S.cumsum(S.round(x), axis=0, dtype="float64"), 2 * SLICE),
    "argmax": (lambda x: S.argmax(x, axis=0), PAIR),
    "argmin": (lambda x: S.argmin(x, axis=0, keepdims=True), PAIR),
    "argmax of all": (lambda x: S.argmax(x), 8),
    "argmin of all": (lambda x: S.argmin(x, keepdims=True), 8),
    "argmax_channel": (lambda x: S.argmax_channel(S.transpose(x)), PAIR),
    "np.argmax": (numpy_symbol("argmax", axis=0), PAIR + SLICE),  # positions are of type int64
    "topk": (lambda x: S.topk(x, axis=0, k=2), 2 * PAIR),
    "topk of values": (lambda x: S.topk(x, axis=0, k=3, ret_typ="value", is_ascend=True), 3 * SLICE),
    "topk of both": (lambda x: S.topk(x, axis=0, k=2, ret_typ="both", dtype="int32"), 2 * PAIR),
    "topk of all": (lambda x: S.topk(S.slice_axis(S.round(x), axis=0, begin=0, end=2), axis=0, k=-1), PAIR),
    "the largest": (lambda x: S.topk(S.transpose(x), k=1, ret_typ="both"), PAIR),
}


@pytest.mark.parametrize(("name", "workers"), list(zip(ALONG, cycle([3, 8]), strict=False)))
def test_a_partial_result_of_each_worker_moves(name, workers):
    function, size = ALONG[name]
    plan = compare(function, workers, ROWS.astype("float32"))
    assert plan.communication_bytes <= workers * (workers - 1) * size


ROLLS = {
    "forwards": (numpy_symbol("roll", 1, axis=0), 4 * LINES),
    "backwards": (numpy_symbol("roll", -3, axis=0), 3 * 4 * LINES),
    "of two dimensions": (numpy_symbol("roll", (2, -1), axis=(0, 1)), 2 * 4 * LINES),
    "of slices": (
        lambda x: S.concat(
            S.slice_axis(x, axis=0, begin=-1, end=None), S.slice_axis(x, axis=0, begin=0, end=-1), dim=0
        ),
        4 * LINES,
    ),
    "of all elements": (numpy_symbol("roll", 2), 2 * 4),
}


@pytest.mark.parametrize(("name", "workers"), list(zip(ROLLS, cycle([3, 8]), strict=False)))
def test_a_roll_moves_only_the_elements_that_workers_lack(name, workers):
    function, moved = ROLLS[name]
    assert compare(function, workers, ROWS.astype("float32")).communication_bytes <= workers * moved


def test_the_last_time_step_is_read_as_a_slice():
    plan = compare(lambda x: S.SequenceLast(S.expand_dims(x, axis=1)), 4, ROWS.astype("float32"))
    assert plan.communication_bytes < 4 * LINES


UNUSUAL = {
    "equal": [1.0, 3.0, 0.0, 3.0, 3.0, 2.0, 3.0, 1.0],
    "nan": [1.0, 3.0, np.nan, 3.0, np.inf, 2.0, np.nan, 1.0],
    "late nan": [1.0, 3.0, 2.0, 3.0, 1.0, 2.0, 3.0, np.nan],
    "all nan": [np.nan] * 8,
    "negative zeros": [-0.0, -0.0, 0.0, -0.0, -0.0, 0.0, -0.0, -0.0],
    "all negative zeros": [-0.0] * 8,
    "infinite": [-np.inf, 3.0, -np.inf, -np.inf, np.inf, 2.0, -np.inf, -np.inf],
    "all -inf": [-np.inf] * 8,
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_ties_nans_and_signs_are_those_of_one_device(name):
    def functions(x):
        values = [] if "nan" in name else [S.topk(x, k=1, ret_typ="value")]  # topk with NaN is undefined
        return [S.cumsum(x), S.argmax(x), S.argmin(x, axis=0), S.argmax(x, axis=0, keepdims=True), *values]

    compare(functions, 4, np.asarray(UNUSUAL[name], "float32"))


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8", "int32", "int64"])
def test_other_types(dtype):
    def functions(x):
        return [S.cumsum(x, axis=0), S.argmax(x, axis=0), S.argmin(x, axis=0), *S.topk(x, axis=0, k=2, ret_typ="both")]

    x = np.stack([np.random.RandomState(n).permutation(LENGTH) for n in range(2)], 1)
    compare(functions, 4, x.astype(dtype))


@pytest.mark.parametrize(("shape", "dtype"), [((1 << 25, 4), "float32"), ((4096, 4), "float16"), ((512, 4), "uint8")])
def test_positions_that_the_type_does_not_represent_stay_with_the_kernel(shape, dtype):
    symbol = S.argmax(S.Variable("x", dtype=dtype), axis=0, name="position")
    assert [*tofu.partition(symbol, 2, hints={"x": 0}, x=shape).plan.operators] == ["position"]


GRADIENTS = {
    "cumsum": lambda x: S.cumsum(x, axis=0),
    "cumsum of all": lambda x: S.reshape(S.cumsum(x), shape=(LENGTH, LINES)),
    "topk of values": lambda x: S.topk(x, axis=0, k=2, ret_typ="value"),
    "topk of both": lambda x: S.broadcast_add(*S.topk(x, axis=0, k=2, ret_typ="both", dtype="float64")),
    "argmax": lambda x: S.broadcast_add(x, S.argmax(x, axis=0, keepdims=True)),
    "roll": numpy_symbol("roll", (1, 2), axis=(0, 1)),
}


@pytest.mark.parametrize(("name", "workers"), list(zip(GRADIENTS, cycle([3, 4]), strict=False)))
def test_training_equals_one_device(name, workers):
    rows = S.Variable("rows_weight", shape=(LENGTH, LINES), dtype="float64")
    x = S.broadcast_mul(rows, S.Variable("data"))
    model = PlainModel(S.MakeLoss(S.sin(GRADIENTS[name](x)), name="loss"), {"data": (LENGTH, 1)}, 2)
    executor = compare_split(model, workers, {"rows_weight": 0}, steps=2, randoms=1)
    assert len(executor.partition.plan.operators) > 10
    assert executor.partition.plan.communication_bytes < LENGTH * LINES * 8


def scores(name="best"):
    return S.argmax(S.sin(S.Variable("x", dtype="float32"), name="sin"), axis=0, name=name)


@pytest.mark.parametrize(
    ("shape", "hints"),
    [((45, 4), {"x": 0}), ((6, 4), {"x": 0}), ((48, 4), {"x": 1}), ((48, 4), {"x": 0, "best": "i0"})],
    ids=["indivisible", "short", "split by line", "with a hint"],
)
def test_an_operator_stays_whole(shape, hints):
    plan = tofu.partition(scores(), 2 if shape[0] > 6 else 6, hints=hints, x=shape).plan
    assert [*plan.operators] == ["sin", "best"]


def test_plans_belong_to_their_form():
    shape, options = (LENGTH, 4), {"hints": {"x": 0}}
    written = tofu.partition(scores(), 2, hints={"x": 0, "best": "i0"}, x=shape).plan
    blocks = tofu.partition(scores(), 2, **options, x=shape).plan
    assert blocks.communication_bytes < written.communication_bytes
    assert blocks.tensors["best_output"]
    for plan in (written, blocks):
        again = tofu.partition(scores(), 2, plan=Plan.from_json(plan.to_json()), x=shape).plan
        assert (again.operators, again.communication_bytes) == (plan.operators, plan.communication_bytes)


def test_only_operators_that_gain_are_in_blocks():
    x, y = S.Variable("x"), S.Variable("y")
    net = S.Group(
        [S.argmax(x, axis=0, name="best"), S.argmax(y, axis=0, name="other"), S.cumsum(x, axis=0, name="sums")]
    )
    shapes = {"x": (LENGTH, LINES), "y": (LENGTH, 4)}
    for hints, divided in (({"x": 0, "y": 1}, ["best", "sums"]), ({"x": 0, "y": 1, "sums": "i1"}, ["best"])):
        plan = tofu.partition(net, 2, hints=hints, cache=False, **shapes).plan
        assert [name for name in ("best", "other", "sums") if name_blocks(name) in plan.operators] == divided
        again = tofu.partition(net, 2, plan=Plan.from_json(plan.to_json()), **shapes).plan
        assert again.operators == plan.operators


def test_operators_of_one_name_keep_their_shapes():
    """MXNet allows several operators of one name."""

    def functions(x):
        return [
            S.argmax(S.slice_axis(x, axis=0, begin=0, end=end, name="same"), axis=0, name="same") for end in (48, 24)
        ]

    compare(functions, 2, ROWS.astype("float32"))


def test_advice_has_blocks_for_each_number_of_workers():
    net = S.FullyConnected(S.cumsum(S.Variable("data"), axis=1), num_hidden=16, name="fc")
    model = {"data": (1, 1 << 16)}
    advice = tofu.advise(net, "8xH100", workers=[8], **model)
    found = [option.plan.communication_bytes for option in advice.options if option.plan is not None]
    assert tofu.partition(net, 8, **model).plan.communication_bytes in found


def test_advice_has_room_for_optimizer_states_if_operators_are_in_blocks():
    hidden = S.cumsum(S.FullyConnected(S.Variable("data"), num_hidden=1024), axis=0, name="sum")
    net = S.FullyConnected(hidden, num_hidden=512)
    machine = read_machine("8xH100")
    small = replace(machine, memory_bytes=machine.reserved_bytes + (54 << 20))
    advice = tofu.advise(net, small, workers=[2], states=8, data=(4096, 512))
    option = next(option for option in advice.options if option.name == WITHIN_MEMORY)
    assert name_blocks("sum") in option.plan.operators
    assert option.fits
    assert max(option.simulation.worker_bytes) > (50 << 20)
