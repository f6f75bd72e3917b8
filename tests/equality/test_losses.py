"""Losses whose gradients MXNet divides by a size in single precision. Each part must use the constant of the whole operator."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.mxnet.compare.runs import run_step


@pytest.mark.parametrize(
    ("kind", "dtype", "outputs", "workers"),
    [
        *(("Linear", dtype, outputs, 3) for dtype in ("float16", "float32", "float64") for outputs in (15, 42, 63)),
        *(("Linear", "float64", *sizes) for sizes in ((75, 5), (72, 8), (4, 4), (63, 2))),
        *((kind, dtype, 75, 3) for kind in ("Logistic", "MAE") for dtype in ("float16", "float32")),
    ],
)
def test_a_regression_divided_by_the_outputs_of_a_sample(kind, dtype, outputs, workers):
    """No scale could exactly correct a division by a part's number of outputs instead of 63 or 75."""
    operator, shapes = getattr(mx.sym, f"{kind}RegressionOutput"), dict.fromkeys(("data", "label"), (workers, outputs))
    rng = np.random.RandomState(0)
    values = {name: rng.uniform(-1, 1, shape).astype(dtype) for name, shape in shapes.items()}
    for scale in (0.1, 1.3432430, outputs):
        loss = operator(mx.sym.Variable("data"), mx.sym.Variable("label"), grad_scale=scale, name="loss")
        for axis in ("b", "s0") if scale == 0.1 else ("s0",):
            parts = tofu.partition(loss, workers, hints={"loss_backward": axis})
            runs = [run_step(symbol, shapes, values, {"data": "write"}).training for symbol in (loss, parts)]
            np.testing.assert_array_equal(*(run.gradients["data"] for run in runs))
