"""What fails while a model is bound or runs: the error says what is lost, and the next call works."""

import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.mxnet.runtime.executor import failures


def classifier():
    hidden = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=7, name="first")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=5, name="second"), name="softmax")


def fail_on(array):
    """Have the engine note that the last kernel which wrote the array failed, as MXNet's own can."""
    mx.nd.take(array, mx.nd.array([len(array)], ctx=array.context), mode="raise", out=array[:1])


def bound():
    module = tofu.mod.Module(tofu.partition(classifier(), ngpus=2))
    module.bind([("data", (6, 4))], [("softmax_label", (6,))])
    mx.random.seed(3)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="sgd")
    return module


def batch():
    return mx.io.DataBatch([mx.nd.array(np.arange(24).reshape(6, 4))], [mx.nd.zeros(6)])


def test_an_update_that_fails_names_the_weights_that_do_not_belong_together():
    module = bound()
    module.forward_backward(batch())
    module.update()
    fail_on(module.executor.variables["second_weight"].arrays[1])
    module.forward_backward(batch())
    told = r"The last update failed: .* The parameters second_weight are .* the model is inconsistent"
    with pytest.raises(tofu.ExecutionError, match=told):
        module.update()
    module.forward_backward(batch())
    module.update()
    assert np.isfinite(module.get_outputs()[0].asnumpy()).all()


def test_a_plan_that_needs_more_than_the_machine_has_is_refused_before_it_is_bound(monkeypatch):
    needed = max(bound().executor.partition.plan.worker_bytes)
    monkeypatch.setattr(failures, "read_total_bytes", lambda: needed)  # of two workers on the host
    with pytest.raises(
        tofu.OutOfMemoryError, match=r"not enough memory for binding the model: the plan needs up to .* on each of 2"
    ):
        bound()
    monkeypatch.setattr(failures, "read_total_bytes", lambda: 3 * needed)
    bound()


@pytest.mark.parametrize("axis", ["z0", "v"])
@pytest.mark.parametrize("row", [4, -1])
def test_an_operator_that_fails_in_forward_is_raised_there(axis, row):
    table = mx.sym.take(mx.sym.Variable("table"), mx.sym.Variable("rows"), mode="raise", name="taken")
    executor = tofu.partition(table, 2, hints={"taken": axis}).simple_bind(mx.cpu(), table=(4, 6), rows=(3,))
    executor.arg_dict["rows"][:] = [3, 0, row]
    with pytest.raises(mx.MXNetError, match="indices out of bound"):
        executor.forward()
    executor.arg_dict["rows"][:] = [3, 0, 1]
    executor.arg_dict["table"][:] = mx.nd.arange(24).reshape((4, 6))
    np.testing.assert_array_equal(executor.forward()[0].asnumpy()[:, 0], [18, 0, 6])


def test_what_nobody_can_reach_makes_room(monkeypatch):
    """MXNet's modules refer to themselves: Python frees them when it collects garbage, which it does not do for their arrays' sake."""
    collected = []
    monkeypatch.setattr(failures.gc, "collect", lambda: collected.append(True))
    monkeypatch.setattr(failures, "read_free_bytes", lambda: 1 << 40)
    needed = sum(bound().executor.partition.plan.worker_bytes)
    assert not collected
    monkeypatch.setattr(failures, "read_free_bytes", lambda: 3 * needed)
    bound()
    assert collected
