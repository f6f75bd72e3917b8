import ctypes

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.shared.module_runs import assert_all_close
from tofu.errors import ShapeError

SHAPES = {"data": (6, 4)}


def build_net():
    hidden = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc1")
    normal = mx.sym.BatchNorm(hidden, fix_gamma=True, name="bn")
    return mx.sym.FullyConnected(mx.sym.Activation(normal, act_type="tanh"), num_hidden=4, name="fc2")


def bind(is_partitioned, grad_req="write"):
    net = build_net()
    symbol = tofu.partition(net, 2) if is_partitioned else net
    executor = symbol.simple_bind(
        mx.cpu(), grad_req=grad_req, type_dict=dict.fromkeys(net.list_inputs(), "float64"), **SHAPES
    )
    draw = np.random.RandomState(3)
    for name, array in [*executor.arg_dict.items(), *executor.aux_dict.items()]:
        array[:] = draw.rand(*array.shape) if name == "bn_moving_var" else draw.randn(*array.shape)
    return executor


def read(arrays):
    return [array.asnumpy().copy() for array in arrays]


def take_before_forward(executor):
    (kept,) = executor.outputs
    executor.forward()
    return read([kept, executor.outputs[0]])


def keep_over_training(executor):
    kept = [executor.outputs[0], *executor.grad_dict.values(), *executor.aux_dict.values()]
    found = []
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((6, 4), dtype="float64"))
        executor.arg_dict["fc1_weight"][:] -= executor.grad_dict["fc1_weight"]
        found += read(kept)
    return found


def write_raw(array, values):
    array.wait_to_read()
    pointer = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.MXNDArrayGetData(array.handle, ctypes.byref(pointer)))
    elements = (ctypes.c_double * array.size).from_address(pointer.value)
    elements[:] = np.broadcast_to(values, array.shape).ravel().tolist()


def write_through_a_pointer(executor):
    executor.forward()
    write_raw(executor.arg_dict["fc1_weight"], 0.5)
    return read(executor.forward())


def write_through_dlpack(executor):
    view = mx.nd.from_dlpack(executor.arg_dict["fc1_weight"].to_dlpack_for_write())
    executor.forward()
    view[:] = 0.25
    view.wait_to_read()
    return read(executor.forward())


def read_through_dlpack(executor):
    view = mx.nd.from_dlpack(executor.outputs[0].to_dlpack_for_read())
    executor.forward()
    mx.nd.waitall()
    return read([view])


def write_a_state_between_steps(executor):
    executor.forward(is_train=True)
    executor.aux_dict["bn_moving_mean"][:] = 7
    return read(executor.forward())


def backward_after_a_second_forward(executor):
    executor.forward(is_train=True)
    executor.arg_dict["fc2_weight"][:] = 1
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((6, 4), dtype="float64"))
    return read([*executor.grad_arrays, *executor.outputs])


def write_before_backward(executor):
    """The gradient of a loss may depend on values written after its forward pass."""
    executor.forward(is_train=True)
    executor.arg_dict["data"][:] = 0.5
    executor.arg_dict["fc2_weight"][:] = 0.25
    executor.aux_dict["bn_moving_mean"][:] = 7
    executor.backward(mx.nd.ones((6, 4), dtype="float64"))
    return read([*executor.grad_arrays, *executor.aux_arrays, *executor.outputs])


def test_arrays_keep_their_identity():
    executor = bind(True)

    def list_arrays():
        named = (executor.arg_dict, executor.grad_dict, executor.aux_dict, executor.output_dict)
        return [array for arrays in named for array in arrays.values()] + executor.outputs

    before = list_arrays()
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((6, 4), dtype="float64"))
    assert all(array is again for array, again in zip(before, list_arrays(), strict=True))


def reshape_smaller(executor):
    """MXNet's arrays for fewer samples are the beginning of the larger arrays."""
    smaller = executor.reshape(data=(3, 4))
    found = read([smaller.arg_dict["data"], *smaller.forward()])
    smaller.arg_dict["data"][:] = 2
    found += read(executor.forward())
    return found


def reshape_smaller_and_back(executor):
    again = executor.reshape(data=(2, 4)).reshape(data=(6, 4), allow_up_sizing=True)
    again.arg_dict["data"][:] = 1
    return read([*again.forward(), executor.arg_dict["data"], again.arg_dict["fc1_weight"]])


def write_there_and_back_again(executor):
    smaller = executor.reshape(data=(3, 4))
    weight = executor.arg_dict["fc1_weight"]
    kept = weight.asnumpy().copy()
    for _ in range(2):
        executor.forward()
    write_raw(weight, 0.5)
    found = read(smaller.forward())
    write_raw(weight, kept)
    return found + read(executor.forward())


SCRIPTS = [
    take_before_forward,
    keep_over_training,
    write_through_a_pointer,
    write_through_dlpack,
    read_through_dlpack,
    write_a_state_between_steps,
    backward_after_a_second_forward,
    write_before_backward,
    reshape_smaller,
    reshape_smaller_and_back,
    write_there_and_back_again,
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_arrays_hold_what_mxnets_arrays_hold(script):
    assert_all_close(script(bind(True)), script(bind(False)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("buffer", [None, {}])
def test_executors_share_arrays_through_a_buffer(buffer):
    found = []
    for is_partitioned in (False, True):
        first = bind(is_partitioned)
        shared = {"shared_exec": first, "shared_arg_names": ["fc1_weight"], "shared_buffer": buffer}
        symbol = tofu.partition(build_net(), 2) if is_partitioned else build_net()
        types = dict.fromkeys(build_net().list_inputs(), "float64")
        second = symbol.simple_bind(mx.cpu(), type_dict=types, **shared, **SHAPES)
        for arrays in (second.arg_dict, second.grad_dict, second.aux_dict):
            for name in ("fc1_weight", "bn_moving_mean"):
                if name in arrays:
                    arrays[name][:] = 3
        written = (first.arg_dict["fc1_weight"], first.grad_dict["fc1_weight"], first.aux_dict["bn_moving_mean"])
        found.append([bool((array == 3).asnumpy().all()) for array in written])
    assert found[0] == found[1] == [buffer is not None] * 3


def test_larger_arrays_need_allow_up_sizing():
    executor = bind(True)
    with pytest.raises(ShapeError, match=r"data: \(6, 4\) becomes \(7, 4\)"):
        executor.reshape(data=(7, 4))
    for is_partitioned in (True, False):
        with pytest.raises(mx.MXNetError):
            bind(is_partitioned).reshape(data=(7, 4))
        with pytest.raises(mx.MXNetError):
            bind(is_partitioned).reshape(data=(6, 5), allow_up_sizing=True)
    assert executor.reshape(data=(7, 4), allow_up_sizing=True).forward()[0].shape == (7, 4)


def test_weights_may_be_shared_with_an_executor_of_one_device():
    """The executor of one device moves convolution weights into oneDNN's blocks in place."""
    net = mx.sym.Convolution(
        mx.sym.Variable("data"), kernel=(3, 3), num_filter=16, pad=(1, 1), no_bias=True, name="conv"
    )
    draw = np.random.RandomState(5)
    values = {"data": mx.nd.array(draw.randn(2, 16, 8, 8)), "conv_weight": mx.nd.array(draw.randn(16, 16, 3, 3))}
    plain = net.bind(mx.cpu(), values)
    partitioned = tofu.partition(net, 2).bind(mx.cpu(), values)
    for _ in range(3):
        expected = plain.forward(is_train=False)[0].asnumpy()
        np.testing.assert_allclose(partitioned.forward()[0].asnumpy(), expected, rtol=1e-5, atol=1e-5)


def test_mxnets_check_consistency():
    contexts = [{"ctx": mx.cpu(0), "data": (6, 4), "type_dict": {"data": dtype}} for dtype in (np.float64, np.float32)]
    mx.test_utils.check_consistency(tofu.partition(build_net(), 2), contexts, raise_on_err=True)


@pytest.mark.parametrize("devices", [2, 3, 4])
def test_results_for_several_contexts_are_split_as_in_mxnet(devices):
    """Ten samples do not split evenly: in dimension 0 of one tensor and dimension 1 of another."""
    data, state = mx.sym.Variable("data", __layout__="TNC"), mx.sym.Variable("state")
    with mx.AttrScope(__layout__="TNC"):
        first = mx.sym.Activation(data, act_type="tanh")
    net = mx.sym.Group([first, mx.sym.sum(data, axis=0) + state])
    contexts = [mx.cpu(n) for n in range(devices)]
    found = []
    for kind in (mx.mod.Module, tofu.mod.Module):
        module = kind(net, label_names=None, state_names=["state"], context=contexts)
        module.bind([mx.io.DataDesc("data", (3, 10, 4), layout="TNC")], inputs_need_grad=True)
        module.init_params()
        module.set_states(value=0.25)
        states = module.get_states(merge_multi_context=False)
        module.set_states(states=[[piece.copy() for piece in pieces] for pieces in states])
        module.forward(mx.io.DataBatch([mx.nd.arange(120).reshape((3, 10, 4))]), is_train=True)
        module.backward([mx.nd.ones((3, 10, 4)), mx.nd.ones((10, 4))])
        results = [module.get_outputs(False), module.get_input_grads(False), module.get_states(False)]
        found.append([[piece.asnumpy() for piece in pieces] for result in results for pieces in result])
    for own, expected in zip(found[1], found[0], strict=True):
        assert [piece.shape for piece in own] == [piece.shape for piece in expected]
        assert_all_close(own, expected, rtol=1e-6)


def test_arrays_of_mx_np_are_bound_as_on_one_device():
    hidden = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, no_bias=True, name="fc")
    whole = mx.sym.BatchNorm(hidden, fix_gamma=False, name="bn")
    shapes, _, aux_shapes = whole.infer_shape(data=(8, 4))

    def run(symbol):
        random = np.random.RandomState(0)
        named = zip(whole.list_arguments(), shapes, strict=True)
        arguments = {name: mx.np.array(random.rand(*shape)) for name, shape in named}
        gradients = {name: mx.np.zeros_like(array) for name, array in arguments.items()}
        named = zip(whole.list_auxiliary_states(), aux_shapes, strict=True)
        states = {name: mx.np.ones(shape, dtype="float64") for name, shape in named}
        executor = symbol.bind(mx.cpu(), arguments, args_grad=gradients, aux_states=states)
        executor.forward(is_train=True, data=mx.np.array(random.rand(8, 4)))
        executor.backward(mx.np.array(random.rand(8, 6)))
        executor.arg_dict["fc_weight"][1] = 0.5
        (result,) = executor.forward()
        assert all(isinstance(array, mx.np.ndarray) for array in executor.arg_dict.values())
        return [array.asnumpy() for array in (result, *gradients.values(), *states.values())]

    for workers in (2, 3):
        assert_all_close(run(tofu.partition(whole, workers)), run(whole), rtol=1e-9, atol=1e-9)
