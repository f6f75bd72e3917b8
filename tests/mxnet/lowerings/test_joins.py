"""Concatenations read through slices, so that workers fetch only the elements that they lack."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.equality.comparison import compare_split
from tests.models.plain import PlainModel
from tofu.mxnet.compare.runs import run_step

S = mx.sym
ROWS, COLUMNS = 48, 5
ROW = 8 * COLUMNS


def cut(x, begin, end):
    return S.slice_axis(x, axis=0, begin=begin, end=end)


def rest(count):
    return S.zeros((count, COLUMNS), dtype="float64")


# Functions of an array that is split by rows, and the rows that cross each border between workers.
JOINS = {
    "shift down": (lambda x: S.concat(rest(1), cut(x, 0, -1), dim=0), 1),
    "shift up": (lambda x: S.concat(cut(x, 3, None), rest(3), dim=0), 3),
    "tail and new row": (lambda x: S.concat(cut(x, 1, None), S.slice_axis(x, axis=0, begin=0, end=1) * 2, dim=0), 2),
    "slice of slices": (lambda x: S.concat(rest(2), cut(cut(x, 0, -1), 0, -1), dim=0), 2),
    "slice of padding": (lambda x: cut(S.concat(rest(2), x, rest(1), dim=0), 1, -2), 1),
}


@pytest.mark.parametrize("workers", [3, 4])
@pytest.mark.parametrize("name", JOINS)
def test_a_join_moves_only_the_elements_that_workers_lack(name, workers):
    function, moved = JOINS[name]
    x = S.Variable("rows_weight", shape=(ROWS, COLUMNS), dtype="float64")
    values = np.random.RandomState(0).standard_normal((ROWS, COLUMNS))
    split = tofu.partition(S.identity(function(x)), workers, hints={"rows_weight": 0}, for_training=False)
    runs = [
        run_step(one, {"rows_weight": (ROWS, COLUMNS)}, {"rows_weight": values}, {"rows_weight": "null"})
        for one in (split.whole, split)
    ]
    whole, found = (list(run.inference.outputs.values()) for run in runs)
    np.testing.assert_array_equal(found, whole)
    assert split.plan.communication_bytes <= (workers - 1) * moved * ROW + ROW


@pytest.mark.parametrize("name", JOINS)
def test_training_equals_one_device(name):
    rows = S.Variable("rows_weight", shape=(ROWS, COLUMNS), dtype="float64")
    joined = S.MakeLoss(S.sin(JOINS[name][0](S.broadcast_mul(rows, S.Variable("data")))), name="loss")
    compare_split(PlainModel(joined, {"data": (ROWS, 1)}, 2), 3, {"rows_weight": 0}, steps=2, randoms=1)
