"""Operators that count over the whole tensor: places of maxima, sequence lengths, and numbers of samples."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.equality.comparison import compare_symbols
from tofu.mxnet.compare.values import draw_values

RNG = np.random.RandomState(0)


def pooled_regions():
    data = mx.sym.broadcast_mul(mx.sym.Variable("data"), mx.sym.Variable("scale_weight", shape=(1, 4, 1, 1)))
    net = mx.sym.ROIPooling(data, mx.sym.Variable("rois"), pooled_size=(2, 2), spatial_scale=1.0, name="one")
    rois = np.array([[0, 0, 0, 3, 3], [1, 1, 0, 4, 5], [1, 2, 2, 4, 4], [0, 0, 1, 2, 5]], "float64")
    return net, {"data": (2, 4, 5, 6), "rois": (4, 5)}, {"rois": rois}


def chosen_boxes():
    data = mx.sym.Variable("data") * mx.sym.Variable("scale_weight", shape=(4, 5, 6))
    net = mx.sym.contrib.box_nms(data, overlap_thresh=0.2, id_index=0, name="one")
    corners = RNG.uniform(0, 1, (4, 5, 2))
    boxes = np.concatenate([RNG.randint(0, 2, (4, 5, 1)), RNG.uniform(0.1, 1, (4, 5, 1)), corners, corners + 0.4], 2)
    return net, {"data": (4, 5, 6)}, {"data": boxes, "scale_weight": np.ones((4, 5, 6))}


@pytest.mark.parametrize(
    ("make", "workers", "axes", "places"),
    [
        (pooled_regions, 2, "c", 0),
        (pooled_regions, 4, ("c", "r"), ...),
        (chosen_boxes, 2, "b0", 1),
        (chosen_boxes, 4, "b0", 0),
    ],
)
def test_places_are_read_as_the_forward_operator_counted_them(make, workers, axes, places):
    net, shapes, given = make()
    symbol = mx.sym.MakeLoss(mx.sym.sin(net))
    split = tofu.partition(symbol, workers, hints={"one": axes, "one_output1": places}, **shapes)
    assert split.plan.operators["one_backward"] == split.plan.operators["one"]
    values = draw_values(symbol, shapes, dict.fromkeys(symbol.list_arguments(), "float64"), given)
    compare_symbols(symbol, split, shapes, values, {"data": "write", "scale_weight": "write"}, 1e-13)


@pytest.mark.parametrize(
    ("dtype", "axis", "tolerance"), [("float16", 0, 1e-2), ("float32", 0, 1e-5), ("float64", 1, 1e-13)]
)
def test_sequence_last_without_lengths_reads_no_scratch_memory(dtype, axis, tolerance):
    """MXNet's own gradient finds what other operators left in scratch memory."""
    normalized = mx.sym.L2Normalization(mx.sym.Variable("data"), mode="spatial", name="norm")
    symbol = mx.sym.SequenceLast(normalized, axis=axis, name="last")
    shapes = {"data": (2, 9, 7)}
    values = draw_values(symbol, shapes, {"data": dtype})
    split = tofu.partition(symbol, 8)
    for _ in range(3):
        compare_symbols(symbol, split, shapes, values, {"data": "write"}, tolerance)
    assert "last_backward/lengths" in split.plan.operators


SAMPLES, BOXES = 5, 3
SHAPES = {"data": (SAMPLES, 4, 4, 4), "deltas": (SAMPLES, 8, 4, 4), "info": (SAMPLES, 3)}


def propose(**more):
    """Return a model that pools regions in the boxes that MultiProposal proposes in single precision."""
    inputs = {name: mx.sym.Variable(name, dtype="float64") for name in SHAPES}
    scale = mx.sym.Variable("scale_weight", shape=(1, 4, 1, 1), dtype="float64")
    inputs["data"] = mx.sym.broadcast_mul(inputs["data"], scale)
    settings = {"rpn_post_nms_top_n": BOXES, "scales": (1,), "ratios": (0.5, 1), "rpn_min_size": 2, **more}
    singles = [mx.sym.Cast(value, dtype="float32") for value in inputs.values()]
    found = mx.sym.contrib.MultiProposal(*singles, name="boxes", **settings)
    boxes = mx.sym.Cast(found[0] if more else found, dtype="float64")
    pooled = mx.sym.ROIPooling(inputs["data"], boxes, pooled_size=(2, 2), spatial_scale=1 / 16, name="pool")
    outputs = [mx.sym.MakeLoss(mx.sym.sin(pooled)), mx.sym.BlockGrad(boxes, name="numbered")]
    return mx.sym.Group([*outputs, mx.sym.BlockGrad(found[1])] if more else outputs)


@pytest.mark.parametrize(("workers", "more"), [(2, {"output_score": True}), (3, {})])
def test_boxes_have_the_numbers_of_their_samples(workers, more):
    symbol = propose(**more)
    split = tofu.partition(symbol, workers, hints={"boxes": "b"}, **SHAPES)
    assert split.plan.operators["boxes"] == ("b",)
    given = {"info": np.tile([64.0, 64.0, 1.0], (SAMPLES, 1))}
    values = draw_values(symbol, SHAPES, dict.fromkeys(symbol.list_arguments(), "float64"), given)
    requests = {"data": "write", "scale_weight": "write", "deltas": "write"}
    expected = compare_symbols(symbol, split, SHAPES, values, requests, 1e-13)
    np.testing.assert_array_equal(expected.outputs["numbered_output"][:, 0], np.repeat(np.arange(SAMPLES), BOXES))
