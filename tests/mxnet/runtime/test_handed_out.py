"""The arrays that an executor hands out are the same for its life, and hold what MXNet's do: scripts run on one device and on workers."""

import ctypes

import mxnet as mx
import numpy as np
import pytest

import tofu
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


def keep_over_two_forwards(executor):
    (first,) = executor.forward()
    found = read([first])
    executor.forward(data=mx.nd.ones(SHAPES["data"], dtype="float64"))
    return [*found, *read([first, executor.output_dict["fc2_output"]])]


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
    cells = (ctypes.c_double * array.size).from_address(pointer.value)
    cells[:] = np.broadcast_to(values, array.shape).ravel().tolist()


def write_through_a_pointer(executor):
    executor.forward()
    write_raw(executor.arg_dict["fc1_weight"], 0.5)
    return read(executor.forward())


def write_an_input_through_a_pointer(executor):
    executor.forward()
    write_raw(executor.arg_dict["data"], 0.5)
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
    """Weights are written between two training forwards."""
    executor.forward(is_train=True)
    executor.arg_dict["fc2_weight"][:] = 1
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((6, 4), dtype="float64"))
    return read([*executor.grad_arrays, *executor.outputs])


def write_before_backward(executor):
    """The gradients of a loss may depend on what is written after its forward; what forward computed stays."""
    executor.forward(is_train=True)
    executor.arg_dict["data"][:] = 0.5
    executor.arg_dict["fc2_weight"][:] = 0.25
    executor.aux_dict["bn_moving_mean"][:] = 7
    executor.backward(mx.nd.ones((6, 4), dtype="float64"))
    return read([*executor.grad_arrays, *executor.aux_arrays, *executor.outputs])


SCRIPTS = [
    take_before_forward,
    keep_over_two_forwards,
    keep_over_training,
    write_through_a_pointer,
    write_an_input_through_a_pointer,
    write_through_dlpack,
    read_through_dlpack,
    write_a_state_between_steps,
    backward_after_a_second_forward,
    write_before_backward,
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_arrays_hold_what_those_of_mxnet_hold(script):
    for found, expected in zip(script(bind(True)), script(bind(False)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_arrays_are_the_same_for_the_life_of_an_executor():
    executor = bind(True)

    def list_arrays():
        named = (executor.arg_dict, executor.grad_dict, executor.aux_dict, executor.output_dict)
        return [array for arrays in named for array in arrays.values()] + executor.outputs

    before = list_arrays()
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((6, 4), dtype="float64"))
    assert all(one is other for one, other in zip(before, list_arrays(), strict=True))


def reshape_smaller(executor):
    """MXNet's arrays for fewer samples are the beginning of those for more."""
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
    """An executor that shares the weights runs in between, with others."""
    smaller = executor.reshape(data=(3, 4))
    weight = executor.arg_dict["fc1_weight"]
    kept = weight.asnumpy().copy()
    for _ in range(2):
        executor.forward()
    write_raw(weight, 0.5)
    found = read(smaller.forward())
    write_raw(weight, kept)
    return found + read(executor.forward())


@pytest.mark.parametrize("script", [reshape_smaller, reshape_smaller_and_back, write_there_and_back_again])
def test_other_shapes_share_the_arrays(script):
    for found, expected in zip(script(bind(True)), script(bind(False)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("buffer", [None, {}])
def test_arrays_are_shared_with_another_executor_where_there_is_a_buffer(buffer):
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


def test_larger_arrays_have_to_be_asked_for():
    executor = bind(True)
    with pytest.raises(ShapeError, match=r"data: \(6, 4\) becomes \(7, 4\)"):
        executor.reshape(data=(7, 4))
    for is_partitioned in (True, False):
        with pytest.raises(mx.MXNetError):
            bind(is_partitioned).reshape(data=(7, 4))
        with pytest.raises(mx.MXNetError):
            bind(is_partitioned).reshape(data=(6, 5), allow_up_sizing=True)
    assert executor.reshape(data=(7, 4), allow_up_sizing=True).forward()[0].shape == (7, 4)


def test_weights_may_be_those_of_an_executor_of_one_device():
    """Which puts the weights of convolutions into oneDNN's blocks, where they are."""
    net = mx.sym.Convolution(
        mx.sym.Variable("data"), kernel=(3, 3), num_filter=16, pad=(1, 1), no_bias=True, name="conv"
    )
    draw = np.random.RandomState(5)
    values = {"data": mx.nd.array(draw.randn(2, 16, 8, 8)), "conv_weight": mx.nd.array(draw.randn(16, 16, 3, 3))}
    plain = net.bind(mx.cpu(), values)
    parted = tofu.partition(net, 2).bind(mx.cpu(), values)
    for _ in range(3):
        expected = plain.forward(is_train=False)[0].asnumpy()
        np.testing.assert_allclose(parted.forward()[0].asnumpy(), expected, rtol=1e-5, atol=1e-5)


def test_check_consistency_of_mxnet():
    contexts = [{"ctx": mx.cpu(0), "data": (6, 4), "type_dict": {"data": dtype}} for dtype in (np.float64, np.float32)]
    mx.test_utils.check_consistency(tofu.partition(build_net(), 2), contexts, raise_on_err=True)


@pytest.mark.parametrize("devices", [2, 3, 4])
def test_results_for_several_contexts_are_cut_as_mxnet_cuts_them(devices):
    """Ten samples, of which some devices have more, in the second dimension and in the first."""
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
        module.set_states(
            states=[[p.copy() for p in pieces] for pieces in module.get_states(merge_multi_context=False)]
        )
        module.forward(mx.io.DataBatch([mx.nd.arange(120).reshape((3, 10, 4))]), is_train=True)
        module.backward([mx.nd.ones((3, 10, 4)), mx.nd.ones((10, 4))])
        results = [module.get_outputs(False), module.get_input_grads(False), module.get_states(False)]
        found.append([[piece.asnumpy() for piece in pieces] for result in results for pieces in result])
    for mine, theirs in zip(found[1], found[0], strict=True):
        assert [piece.shape for piece in mine] == [piece.shape for piece in theirs]
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("merge", [True, False])
def test_results_of_a_module_nest_as_those_of_mxnet(merge, devices):
    """A list for each result, with what each device has of the batch; of a partitioned model the only one is the whole."""
    plain = mx.mod.Module(build_net(), label_names=None, context=[mx.cpu(n) for n in range(devices)])
    parted = tofu.mod.Module(tofu.partition(build_net(), 2), label_names=None)
    found = []
    for module in (plain, parted):
        module.bind([("data", (6, 4))], inputs_need_grad=True)
        module.init_params(mx.init.One())
        module.forward(mx.io.DataBatch([mx.nd.ones((6, 4))]), is_train=True)
        module.backward([mx.nd.ones((6, 4))])
        results = [module.get_outputs(merge_multi_context=merge), module.get_input_grads(merge_multi_context=merge)]
        if not merge:
            assert [len(parts) for result in results for parts in result] == [devices if module is plain else 1] * 2
            results = [[mx.nd.concat(*parts, dim=0) for parts in result] for result in results]
        assert module.get_states(merge_multi_context=False) == []
        found.append([whole.asnumpy() for result in results for whole in result])
    for whole, expected in zip(*found, strict=True):
        np.testing.assert_allclose(whole, expected, rtol=1e-5, atol=1e-6)


def test_arrays_of_numpy_are_bound_and_fed_as_on_one_device():
    """Executors take arrays of mx.np, write gradients and moving averages into them, and hand them out."""
    hidden = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, no_bias=True, name="fc")
    whole = mx.sym.BatchNorm(hidden, fix_gamma=False, name="bn")
    shapes, _, aux_shapes = whole.infer_shape(data=(8, 4))

    def run(symbol):
        random = np.random.RandomState(0)
        arguments = {
            name: mx.np.array(random.rand(*shape)) for name, shape in zip(whole.list_arguments(), shapes, strict=True)
        }
        gradients = {name: mx.np.zeros_like(array) for name, array in arguments.items()}
        states = {
            name: mx.np.ones(shape, dtype="float64")
            for name, shape in zip(whole.list_auxiliary_states(), aux_shapes, strict=True)
        }
        executor = symbol.bind(mx.cpu(), arguments, args_grad=gradients, aux_states=states)
        executor.forward(is_train=True, data=mx.np.array(random.rand(8, 4)))
        executor.backward(mx.np.array(random.rand(8, 6)))
        executor.arg_dict["fc_weight"][1] = 0.5
        (result,) = executor.forward()
        assert all(isinstance(array, mx.np.ndarray) for array in executor.arg_dict.values())
        return [array.asnumpy() for array in (result, *gradients.values(), *states.values())]

    for workers in (2, 3):
        for found, expected in zip(run(tofu.partition(whole, workers)), run(whole), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
