"""Gradients that read places which their forward operator has counted in its own part: both are split alike, whatever else a plan says."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.errors import PlanError
from tofu.mxnet.compare import compare_numbers, draw_values, run_step

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
def test_places_are_read_where_they_were_counted(make, workers, axes, places):
    net, shapes, given = make()
    symbol = mx.sym.MakeLoss(mx.sym.sin(net))
    split = tofu.partition(symbol, workers, hints={"one": axes, "one_output1": places}, **shapes)
    assert split.plan.operators["one_backward"] == split.plan.operators["one"]
    values = draw_values(symbol, shapes, dict.fromkeys(symbol.list_arguments(), "float64"), given)
    requests = {"data": "write", "scale_weight": "write"}
    single = run_step(symbol, shapes, values, requests).training
    found = run_step(split, shapes, values, requests)
    assert max(one.error for one in compare_numbers(found.training, single)) < 1e-13
    assert np.abs(single.gradients["data"]).max() > 0
    assert found.training_bytes == split.plan.communication_bytes


@pytest.mark.parametrize(("make", "axis", "other"), [(pooled_regions, "c", "r"), (chosen_boxes, "b0", None)])
def test_a_gradient_is_not_split_otherwise(make, axis, other):
    net, shapes, _ = make()
    with pytest.raises(PlanError, match=r"one_backward to .*, but they share one choice"):
        tofu.partition(mx.sym.MakeLoss(net), 2, hints={"one": axis, "one_backward": other}, **shapes)
