"""SequenceLast without lengths beside operators that use MXNet's scratch memory, where its own gradient finds what they left there."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.mxnet.compare import compare_numbers, draw_values, run_step


@pytest.mark.parametrize(
    ("dtype", "axis", "tolerance"), [("float16", 0, 1e-2), ("float32", 0, 1e-5), ("float64", 1, 1e-13)]
)
def test_the_last_step_is_not_looked_up_in_scratch_memory(dtype, axis, tolerance):
    normalized = mx.sym.L2Normalization(mx.sym.Variable("data"), mode="spatial", name="norm")
    symbol = mx.sym.SequenceLast(normalized, axis=axis, name="last")
    shapes = {"data": (2, 9, 7)}
    values = draw_values(symbol, shapes, {"data": dtype})
    split = tofu.partition(symbol, 8)
    single = run_step(symbol, shapes, values, {"data": "write"})
    for _ in range(3):
        found = run_step(split, shapes, values, {"data": "write"})
        assert max(difference.error for difference in compare_numbers(found.training, single.training)) < tolerance
        assert found.training_bytes == split.plan.communication_bytes
    assert "last_backward/lengths" in split.plan.operators
    assert np.abs(found.training.gradients["data"]).max() > 0
