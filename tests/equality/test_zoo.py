"""Networks that MXNet's users train, one of each kind: the numbers of one device. benchmarks/equality.py runs all, under random plans."""

import pytest
from application_models import APPLICATIONS
from comparison import References, compare
from gluon_models import GLUON_MODELS
from training import bind_partitioned, largest_error, random_values, run_partitioned, run_single

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


def test_a_detector_in_single_precision():
    """Losses that are divided by what is counted in the data: MakeLoss and SoftmaxOutput with normalization="valid"."""
    model = NETWORKS["ssd"]("float32")
    values = random_values(model, "float32")
    step, _ = run_single(model, values, "float32")
    executor = bind_partitioned(model, 4, "float32")
    found, _, moved = run_partitioned(executor, values)
    assert moved == executor.partition.plan.communication_bytes
    assert largest_error(found, step) < 1e-5
