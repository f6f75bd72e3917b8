"""Operators such as take, split along the dimension in which they look up positions, equal one device."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.equality.comparison import compare_split, list_operators
from tests.models.plain import PlainModel
from tests.models.recurrent import stacked


def compare_axes(model: PlainModel, workers: int, axes: dict[str, str], parts: set[str]) -> None:
    assert parts <= list_operators(compare_split(model, workers, axes, steps=2))


def test_a_language_model_split_by_its_vocabulary():
    axes = {"embed": "v", "embed_backward": "v", "softmax": "k", "softmax_backward": "k", "word_weight": 0}
    parts = {"_tofu_take", "_tofu_take_backward", "_tofu_softmax_output_apply", "_tofu_softmax_output_gradient"}
    compare_axes(stacked("lstm", "float64"), 4, axes, parts)


@pytest.mark.parametrize("attributes", [{"axis": 1}, {"axis": -1, "mode": "wrap"}, {"axis": 0}])
def test_lookups_of_indices_out_of_range(attributes):
    table = mx.sym.Variable("table_weight", shape=(7, 6, 5), dtype="float64")
    indices = 20 * mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="indices")
    taken = mx.sym.take(table, indices, name="take", **attributes)
    model = PlainModel(mx.sym.MakeLoss(mx.sym.square(taken)), {"data": (4, 5)}, 5)
    axes = {"take": "v", "take_backward": "v"}
    compare_axes(model, 3, axes, {"_tofu_take", "_tofu_take_backward"})


@pytest.mark.parametrize(("row", "found"), [(-1, 7), (-8, 0), (2.7, 2), (8, None), (-9, None)])
def test_rows_gathered_from_the_end_or_out_of_range(row, found):
    rows = mx.sym.gather_nd(mx.sym.Variable("table"), mx.sym.Variable("indices"), name="rows")
    split = tofu.partition(rows, 2, hints={"rows": "v"}, for_training=False, table=(8, 2), indices=(1, 2))
    executor = split.bind(mx.cpu(), {"table": mx.nd.arange(16).reshape((8, 2)), "indices": mx.nd.array([[0, row]])})
    if found is None:
        with pytest.raises(IndexError, match="out of bounds"):
            executor.forward()
        return
    assert executor.forward()[0].asnumpy().tolist() == [[0, 1], [2 * found, 2 * found + 1]]


def test_elements_taken_from_lines_that_are_split():
    scores = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=7, name="scores")
    chosen = mx.sym.Cast(4 * mx.sym.Variable("softmax_label") - 4, dtype="int32")  # some are clipped
    taken = mx.sym.BlockGrad(mx.sym.batch_take(scores, chosen, name="taken"))  # has no gradient
    loss = mx.sym.MakeLoss(mx.sym.broadcast_mul(scores, mx.sym.expand_dims(taken, axis=1)))
    model = PlainModel(loss, {"data": (5, 4), "softmax_label": (5,)}, 4)
    compare_axes(model, 3, {"taken": "v", "scores": "h"}, {"_tofu_pick"})


@pytest.mark.parametrize("axis", [0, 1])
def test_sequences_split_by_time(axis):
    cells = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, flatten=False, name="cells")
    lengths = np.array([1, 7, 3.5, 4, 6])
    known = {"use_sequence_length": True, "axis": axis, "sequence_length": mx.sym.Variable("lengths")}
    masked = mx.sym.SequenceMask(cells, value=-0.3, name="masked", **known)
    last = mx.sym.SequenceLast(masked, name="last", **known)
    loss = mx.sym.Group([mx.sym.MakeLoss(mx.sym.square(masked)), mx.sym.MakeLoss(mx.sym.square(last))])
    shape = (5, 7, 4) if axis else (7, 5, 4)
    model = PlainModel(loss, {"data": shape, "lengths": (5,)}, 3, given={"lengths": lengths})
    time = f"i{axis}"
    axes = {"masked": time, "masked_backward": time, "last": "v", "last_backward": "v"}
    parts = {"_tofu_sequence_mask", "_tofu_pick", "_tofu_pick_backward"}
    compare_axes(model, 3, axes, parts)


@pytest.mark.parametrize(("dtype", "depth"), [("float32", (1 << 24) + 1), ("float16", (1 << 11) + 1), ("int32", 8)])
def test_a_depth_beyond_the_index_type_is_not_split(dtype, depth):
    def plan(depth, dtype):
        wanted = mx.sym.one_hot(mx.sym.Variable("index"), depth=depth, dtype=dtype, name="wanted")
        return tofu.partition(wanted, 2, for_training=False, hints={"wanted": "k"}, index=(3,)).plan

    assert plan(depth - 1, "float32").operators["wanted"] == ("k",)
    with pytest.raises(tofu.PlanError, match="wanted"):
        plan(depth, dtype)


@pytest.mark.parametrize(
    ("dtype", "values", "found"),
    [
        ("float64", [np.nextafter(3, 0), 1.5, -0.5, 4, -1], 3),
        ("int64", [3, (1 << 32) + 1, 1 << 31, -1, (1 << 24) + 1], 2),  # MXNet's kernel looks at 32 bits
    ],
)
def test_indices_are_truncated_as_in_mxnet(dtype, values, found):
    wanted = mx.sym.one_hot(mx.sym.Variable("data", dtype=dtype), depth=4, name="wanted")
    split = tofu.partition(wanted, 2, for_training=False, hints={"wanted": "k"}, data=(5,))

    def run(symbol):
        bound = symbol.simple_bind(mx.cpu(), grad_req="null", data=(5,), type_dict={"data": dtype})
        return bound.forward(is_train=False, data=mx.nd.array(values, dtype=dtype))[0].asnumpy()

    expected = run(wanted)
    assert expected.sum() == found
    np.testing.assert_array_equal(run(split), expected)


def test_pick_clips_indices_that_one_device_cuts_to_32_bits():
    """MXNet's kernel reads 2^32 + 3 as 3, although it should clip."""
    picked = mx.sym.pick(mx.sym.Variable("data"), mx.sym.Variable("index", dtype="int64"), axis=1, name="picked")
    split = tofu.partition(picked, 2, for_training=False, hints={"picked": "v"}, data=(1, 8), index=(1,))

    def run(symbol):
        types = {"data": "float32", "index": "int64"}
        bound = symbol.simple_bind(mx.cpu(), grad_req="null", data=(1, 8), index=(1,), type_dict=types)
        inputs = {"data": mx.nd.arange(8).reshape((1, 8)), "index": mx.nd.array([(1 << 32) + 3], dtype="int64")}
        return bound.forward(is_train=False, **inputs)[0].asscalar()

    assert (run(picked), run(split)) == (3, 7)


def test_an_ignored_label_has_no_gradient_where_the_output_is_nan():
    output = mx.sym.SoftmaxOutput(
        mx.sym.Variable("data"), use_ignore=True, ignore_label=2, normalization="valid", name="softmax"
    )
    shapes = {"data": (4, 8), "softmax_label": (4,)}
    executor = tofu.partition(output, ngpus=2, **shapes).simple_bind(mx.cpu(), **shapes)
    executor.arg_dict["data"][:] = np.where(np.arange(32).reshape(4, 8) == 11, np.nan, 0.5)
    executor.arg_dict["softmax_label"][:] = np.array([0, 2, 1, 3])
    executor.forward(is_train=True)
    executor.backward()
    assert not executor.grad_dict["data"].asnumpy()[1].any()
