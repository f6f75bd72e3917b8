"""Networks that MXNet's users train, one of each kind: the numbers of one device."""

import mxnet as mx
import pytest

from tests.equality.comparison import References, compare
from tests.models.applications import APPLICATIONS
from tests.models.plain import Model
from tests.models.zoo import GLUON_MODELS
from tests.shared.training import bind_partitioned, largest_error, random_values, run_partitioned, run_single

STEPS = 3
NETWORKS = GLUON_MODELS | APPLICATIONS
CASES = [
    ("resnet18_v1", 4),
    ("mobilenetv2_1.0", 2),
    ("squeezenet1.1", 8),
    ("transformer_encoder", 8),
    ("gluon_language_model", 4),
    ("dcgan_generator", 2),
    ("unet", 4),
]


@pytest.fixture(scope="module")
def reference():
    return References(lambda name, dtype: NETWORKS[name](dtype))


@pytest.mark.parametrize(("name", "workers"), CASES)
def test_default_plan_equals_one_device(reference, name, workers):
    model, values, step, weights = reference(name, "float64", STEPS)
    compare(bind_partitioned(model, workers, "float64"), values, step, weights, STEPS)


@pytest.mark.parametrize(
    ("attributes", "label", "axis"),
    [
        ({"multi_output": True, "use_ignore": True, "ignore_label": 2, "grad_scale": 3}, (3, 7, 6), "b"),
        ({"multi_output": True, "use_ignore": True, "ignore_label": 2}, (3, 7, 6), "s0"),
        ({"multi_output": True, "smooth_alpha": 0.1}, (3, 42), "b"),
        ({"preserve_shape": True, "use_ignore": True, "ignore_label": 0, "smooth_alpha": 0.1}, (3, 5, 7), "b1"),
    ],
)
def test_gradients_divided_by_the_number_of_valid_labels(attributes, label, axis):
    """The stock kernel counts the labels of its own part; all workers' labels are counted, of which each has its share.

    Without a bias: its gradient sums all classes where they are last, 1e-9 of the terms is left, and MXNet itself gives other last digits
    of that from one run to the next.
    """
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(1, 1), num_filter=5, no_bias=True, name="conv")
    loss = mx.sym.SoftmaxOutput(net, normalization="valid", name="softmax", **attributes)
    model = Model(loss, {"data": (3, 4, 7, 6), "softmax_label": label}, 5)
    values = random_values(model, "float64")
    step, weights = run_single(model, values, "float64", STEPS)
    executor = bind_partitioned(model, 3, "float64", hints={"softmax_backward": axis})
    assert "_tofu_softmax_output_gradient_by_count" in {o.op for o in executor.partition.problem.graph.operators}
    compare(executor, values, step, weights, STEPS)


def test_a_segmentation_model_splits_its_loss_by_batch():
    model = NETWORKS["unet"]("float64")
    plan = bind_partitioned(model, 4, "float64").partition.plan
    assert plan.operators["softmax_backward"] == plan.operators["softmax"] == ("b", "b")


@pytest.mark.parametrize("name", ["ssd", "faster_rcnn"])
def test_detectors_in_single_precision(name):
    """Losses that are divided by what is counted in the data, MakeLoss and SoftmaxOutput with normalization="valid"; proposed regions."""
    model = NETWORKS[name]("float32")
    values = random_values(model, "float32")
    step, _ = run_single(model, values, "float32")
    executor = bind_partitioned(model, 4, "float32")
    found, _, moved = run_partitioned(executor, values)
    assert moved == executor.partition.plan.communication_bytes
    assert largest_error(found, step) < 1e-5
