import mxnet as mx
import numpy as np
import pytest

import tofu
from tofu.mxnet.runtime.executor import failures


def classifier():
    hidden = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=7, name="first")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=5, name="second"), name="softmax")


def fail_on(array):
    mx.nd.take(array, mx.nd.array([len(array)], ctx=array.context), mode="raise", out=array[:1])


def bind_module():
    module = tofu.mod.Module(tofu.partition(classifier(), ngpus=2))
    module.bind([("data", (6, 4))], [("softmax_label", (6,))])
    mx.random.seed(3)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="sgd")
    return module


def make_batch():
    return mx.io.DataBatch([mx.nd.array(np.arange(24).reshape(6, 4))], [mx.nd.zeros(6)])


def test_a_failed_update_names_the_weights_it_left_inconsistent():
    module = bind_module()
    module.forward_backward(make_batch())
    module.update()
    fail_on(module.executor.variables["second_weight"].arrays[1])
    module.forward_backward(make_batch())
    told = r"The last update failed: .* All but the parameters second_weight are updated, so the model is inconsistent"
    with pytest.raises(tofu.ExecutionError, match=told):
        module.update()
    module.forward_backward(make_batch())
    module.update()
    assert np.isfinite(module.get_outputs()[0].asnumpy()).all()


def test_a_plan_larger_than_the_host_memory_is_refused_at_bind(monkeypatch):
    needed = max(bind_module().executor.partition.plan.worker_bytes)
    monkeypatch.setattr(failures, "read_total_bytes", lambda: needed)
    with pytest.raises(
        tofu.OutOfMemoryError, match=r"not enough memory for binding the model: the plan needs up to .* on each of 2"
    ):
        bind_module()
    monkeypatch.setattr(failures, "read_total_bytes", lambda: 3 * needed)
    bind_module()


@pytest.mark.parametrize("axis", ["z0", "v"])
@pytest.mark.parametrize("row", [4, -1])
def test_a_failing_operator_raises_in_forward(axis, row):
    table = mx.sym.take(mx.sym.Variable("table"), mx.sym.Variable("rows"), mode="raise", name="taken")
    executor = tofu.partition(table, 2, hints={"taken": axis}).simple_bind(mx.cpu(), table=(4, 6), rows=(3,))
    executor.arg_dict["rows"][:] = [3, 0, row]
    with pytest.raises(mx.MXNetError, match="indices out of bound"):
        executor.forward()
    executor.arg_dict["rows"][:] = [3, 0, 1]
    executor.arg_dict["table"][:] = mx.nd.arange(24).reshape((4, 6))
    np.testing.assert_array_equal(executor.forward()[0].asnumpy()[:, 0], [18, 0, 6])


def test_binding_collects_unreachable_modules_when_memory_is_short(monkeypatch):
    collected = []
    monkeypatch.setattr(failures.gc, "collect", lambda: collected.append(True))
    monkeypatch.setattr(failures, "read_free_bytes", lambda: 1 << 40)
    needed = sum(bind_module().executor.partition.plan.worker_bytes)
    assert not collected
    monkeypatch.setattr(failures, "read_free_bytes", lambda: 3 * needed)
    bind_module()
    assert collected


def test_an_operator_that_throws_on_one_worker_leaves_the_next_step_right():
    factor = mx.sym.linalg.potrf(mx.sym.Variable("data") * mx.sym.Variable("scale"))
    executor = tofu.partition(factor, 4).simple_bind(mx.cpu(), data=(8, 3, 3), scale=(8, 3, 3))
    executor.arg_dict["scale"][:] = 1
    good = np.repeat(4 * np.eye(3)[None], 8, axis=0)
    bad = good.copy()
    bad[5] *= -1

    def step(data):
        output = executor.forward(is_train=True, data=mx.nd.array(data))[0]
        executor.backward([mx.nd.ones((8, 3, 3))])
        return output.asnumpy(), executor.grad_dict["scale"].asnumpy()

    before = step(good)
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match="positive definite"):
            step(bad)
        assert (executor.arg_dict["scale"].asnumpy() == 1).all()
        for found, expected in zip(step(good), before, strict=True):
            assert (found == expected).all()
