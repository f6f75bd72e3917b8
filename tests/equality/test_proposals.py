"""Proposals split by batch: each worker's boxes begin with the number that their sample has among all."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.errors import PlanError
from tofu.mxnet.compare import compare_numbers, draw_values, run_step

SAMPLES, BOXES = 5, 3
SETTINGS = {"rpn_post_nms_top_n": BOXES, "scales": (1,), "ratios": (0.5, 1), "rpn_min_size": 2}
SHAPES = {"data": (SAMPLES, 4, 4, 4), "deltas": (SAMPLES, 8, 4, 4), "info": (SAMPLES, 3)}


def double(name, **known):
    return mx.sym.Variable(name, dtype="float64", **known)


def single(value):
    return mx.sym.Cast(value, dtype="float32")


def build(op, **more):
    """Boxes, and what is pooled inside of them, for which their samples' numbers matter. MXNet proposes in single precision."""
    data = mx.sym.broadcast_mul(double("data"), double("scale_weight", shape=(1, 4, 1, 1)))
    found = op(single(data), single(double("deltas")), single(double("info")), name="boxes", **SETTINGS, **more)
    boxes = mx.sym.Cast(found[0] if more else found, dtype="float64")
    pooled = mx.sym.ROIPooling(data, boxes, pooled_size=(2, 2), spatial_scale=1 / 16, name="pool")
    outputs = [mx.sym.MakeLoss(mx.sym.sin(pooled)), mx.sym.BlockGrad(boxes, name="numbered")]
    return mx.sym.Group([*outputs, mx.sym.BlockGrad(found[1])] if more else outputs)


@pytest.mark.parametrize(("workers", "more"), [(2, {"output_score": True}), (3, {})])
def test_boxes_have_the_numbers_of_their_samples(workers, more):
    symbol = build(mx.sym.contrib.MultiProposal, **more)
    split = tofu.partition(symbol, workers, hints={"boxes": "b"}, **SHAPES)
    assert split.plan.operators["boxes"] == ("b",)
    given = {"info": np.tile([64.0, 64.0, 1.0], (SAMPLES, 1))}
    values = draw_values(symbol, SHAPES, dict.fromkeys(symbol.list_arguments(), "float64"), given)
    requests = {"data": "write", "scale_weight": "write", "deltas": "write"}
    expected = run_step(symbol, SHAPES, values, requests).training
    found = run_step(split, SHAPES, values, requests)
    np.testing.assert_array_equal(expected.outputs["numbered_output"][:, 0], np.repeat(np.arange(SAMPLES), BOXES))
    assert max(one.error for one in compare_numbers(found.training, expected)) < 1e-13
    assert np.abs(expected.gradients["data"]).max() > 0
    assert found.training_bytes == split.plan.communication_bytes


def test_proposals_of_one_sample_are_not_split():
    """As MXNet's Proposal takes it."""
    symbol = build(mx.sym.contrib.Proposal)
    shapes = {name: (1, *shape[1:]) for name, shape in SHAPES.items()}
    with pytest.raises(PlanError, match="boxes"):
        tofu.partition(symbol, 2, hints={"boxes": "b"}, **shapes)
