"""Each mistake of a user is answered by an error that names the thing, both values and the remedy; nothing is changed by it."""

import re

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.models.plain import mlp
from tests.mxnet.runtime.refusals import refuses


@pytest.fixture
def model():
    return mlp()


@pytest.mark.parametrize("ngpus", [0, -2])
def test_fewer_than_one_worker(model, ngpus):
    with refuses(tofu.DeviceError, f"ngpus is {ngpus}", "at least 1", "ngpus=1"):
        tofu.partition(model.symbol, ngpus)


@pytest.mark.parametrize("ngpus", [2.0, "2", True])
def test_ngpus_of_another_type(model, ngpus):
    with refuses(tofu.DeviceError, "whole number", repr(ngpus)):
        tofu.partition(model.symbol, ngpus)


def test_ngpus_may_be_an_integer_of_numpy(model):
    assert tofu.partition(model.symbol, np.int64(4), data=(12, 17)).plan.workers == 4


def test_no_number_of_workers(model):
    with refuses(tofu.DeviceError, "ngpus=", "contexts=", "plan="):
        tofu.partition(model.symbol)


def test_more_workers_than_can_be_fed():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    with refuses(tofu.InfeasibleError, "64 workers", "Use 8 workers"):
        tofu.partition(net, 64, data=(2, 2))


def test_the_numbers_of_workers_that_can_be_fed(model):
    """The limit is on prime factors, one a step; 36 workers are more than the longest axis, and there is a plan."""
    with refuses(
        tofu.InfeasibleError,
        "29 workers",
        "29 parts",
        "k0 of fc1_backward, 18",
        "prime factor above 18, or a larger batch",
    ):
        tofu.partition(model.symbol, 29, data=(12, 17))
    assert tofu.partition(model.symbol, 36, data=(12, 17)).plan.workers == 36
    assert tofu.partition(model.symbol, 29, data=(29, 17)).plan.workers == 29


def test_more_steps_than_the_model_has_axes_for():
    net = mx.sym.relu(mx.sym.Variable("data"), name="relu")
    with refuses(
        tofu.InfeasibleError,
        "8 workers",
        "over 4 workers already",
        "longest is i. of relu, 1",
        "Use 4 workers, or a larger batch",
    ):
        tofu.partition(net, 8, data=(2, 2), for_training=False)
    assert tofu.partition(net, 4, data=(2, 2), for_training=False).plan.workers == 4


def test_a_larger_batch_is_no_way_out_where_no_axis_is_the_batchs():
    with refuses(
        tofu.InfeasibleError,
        "no operator of the model .boxes0. has an axis to split: .*opaque function. Use one device.$",
    ):
        tofu.partition(mx.sym.contrib.MultiBoxPrior(mx.sym.Variable("data"), name="boxes0"), 2, data=(2, 3, 4, 4))


def test_unknown_input_name(model):
    with refuses(tofu.ShapeError, "no such inputs", "dta", "data"):
        tofu.partition(model.symbol, 2, dta=(4, 17))


def test_missing_shape(model):
    with refuses(tofu.ShapeError, "data", "softmax_label"):
        tofu.partition(model.symbol, 2, softmax_label=(12,))


def test_contradictory_shapes(model):
    with refuses(tofu.ShapeError, "data: \\(12, 17\\)", "fc0_weight: \\(18, 5\\)"):
        tofu.partition(model.symbol, 2, data=(12, 17), fc0_weight=(18, 5))


def test_contexts_fewer_than_workers(model):
    with refuses(tofu.DeviceError, "ngpus says 3", "contexts says 2"):
        tofu.partition(model.symbol, 3, contexts=[mx.cpu(0), mx.cpu(1)])


def test_contexts_that_do_not_exist(model):
    with refuses(tofu.DeviceError, "sees no GPU", "gpu\\(7\\)"):
        tofu.partition(model.symbol, 2, contexts=[mx.cpu(0), mx.gpu(7)])


def test_contexts_listed_twice(model):
    with refuses(tofu.DeviceError, "cpu\\(0\\)", "more than once"):
        tofu.partition(model.symbol, contexts=[mx.cpu(0), mx.cpu(0)])


@pytest.mark.parametrize("shape", [64, "64,17", None, (12.0, 17), (0, 17), (-1, 17), {12, 17}, "ab", (12, "17")])
def test_a_shape_of_another_type(model, shape):
    for partition in (tofu.partition, lambda symbol, workers, **shapes: tofu.bind(tofu.partition(symbol, 2), **shapes)):
        with refuses(tofu.ShapeError, "tuple of positive whole numbers", re.escape(f"data={shape!r}")):
            partition(model.symbol, 2, data=shape)


def test_an_option_that_is_misspelt(model):
    with refuses(tofu.ShapeError, "algorithms='exact'", "did you mean algorithm="):
        tofu.partition(model.symbol, 2, algorithms="exact", data=(12, 17))
    options = r"it has data, softmax_label\), and these are no options \(ngpus, contexts, plan, "
    with refuses(tofu.ShapeError, options, "- foo=3$", r"- dat=\(12, 17\) \(did you mean data=\?\)"):
        tofu.partition(model.symbol, 2, dat=(12, 17), foo=3)
    with refuses(tofu.ShapeError, r"- optimizr='adam' \(did you mean optimizer=\?\)"):
        tofu.memory_report(model.symbol, 2, optimizr="adam", data=(12, 17))
    with refuses(tofu.ShapeError, r"- algorithms='exact' \(did you mean algorithm=\?\)"):
        tofu.frontier(model.symbol, 2, algorithms="exact", data=(12, 17))
    with refuses(tofu.ShapeError, r"- fixd='data' \(did you mean fixed=\?\)"):
        tofu.bind(tofu.partition(model.symbol, 2), fixd="data", data=(12, 17))


def test_shapes_may_be_lists_and_of_numpy(model):
    for shape in ([12, 17], np.array([12, 17]), (np.int32(12), 17)):
        assert tofu.partition(model.symbol, 2, data=shape).plan.workers == 2


def test_one_context_for_a_partitioned_symbol_is_a_script_for_mxnets_module(model):
    symbol = tofu.partition(model.symbol, 2)
    assert tofu.mod.Module(symbol, context=mx.cpu()).symbol is symbol


@pytest.mark.parametrize("contexts", [["cpu(0)", "cpu(1)"], "cpu(0)", mx.cpu(0), [0, 1], 2, {mx.cpu(0), mx.cpu(1)}])
def test_contexts_of_another_type(model, contexts):
    for call in (
        lambda: tofu.partition(model.symbol, contexts=contexts),
        lambda: tofu.bind(model.symbol, contexts, data=(12, 17)),
        lambda: tofu.bind(tofu.partition(model.symbol, 2), contexts, data=(12, 17)),
        lambda: tofu.mod.Module(model.symbol, context=contexts),
    ):
        with refuses(tofu.DeviceError, "MXNet contexts", "contexts?=\\[mx.cpu\\(0\\), mx.cpu\\(1\\)\\]"):
            call()


@pytest.mark.parametrize("undescribed", ["ignore", None, True])
def test_an_unknown_treatment_of_undescribed_operators(model, undescribed):
    with refuses(tofu.UnsupportedError, "'error', 'replicate'", repr(undescribed)):
        tofu.partition(model.symbol, 2, undescribed=undescribed, data=(12, 17))


def test_other_workers_than_those_of_a_partitioned_symbol(model):
    symbol = tofu.partition(model.symbol, 2)
    with refuses(tofu.DeviceError, "cpu\\(0\\), cpu\\(1\\)", "ngpus=4", "symbol.whole"):
        tofu.mod.Module(symbol, ngpus=4)
    with refuses(tofu.DeviceError, "cpu\\(2\\), cpu\\(3\\)"):
        tofu.bind(symbol, [mx.cpu(2), mx.cpu(3)], data=(12, 17))
    assert tofu.mod.Module(symbol, ngpus=2).symbol is symbol


def test_names_that_are_one_string(model):
    for option in ("data_names", "label_names", "fixed_param_names"):
        with refuses(tofu.TofuError, f"{option} takes a list", "\\['data'\\]"):
            tofu.mod.Module(model.symbol, ngpus=2, **{option: "data"})
    with refuses(tofu.TofuError, "fixed takes a list"):
        tofu.bind(tofu.partition(model.symbol, 2), fixed="fc0_weight", data=(12, 17))


def test_unknown_names_show_the_inputs(model):
    for names in ({"data_names": ["pixels"]}, {"fixed_param_names": ["pixels"]}):
        with refuses(tofu.TofuError, "its inputs are data, softmax_label", "- pixels"):
            tofu.mod.Module(model.symbol, ngpus=2, **names)


def test_unknown_names_in_bind(model):
    with refuses(tofu.TofuError, "not among the model's arguments", "fc9_weight", "dta", "fc8_weight"):
        tofu.bind(
            tofu.partition(model.symbol, 2),
            fixed=["fc9_weight"],
            differentiated_inputs=["dta"],
            type_dict={"fc8_weight": "float64"},
            data=(12, 17),
        )


@pytest.mark.parametrize(
    ("given", "way"),
    [
        (lambda net: net.tojson(), r"mx\.sym\.load_json\(text\) reads JSON"),
        (lambda net: "lenet-symbol.json", r"mx\.sym\.load\('lenet-symbol.json'\) reads a file"),
        (lambda net: mx.nd.ones(2), "built of mx.sym.Variable"),
        (lambda net: mx.mod.Module(net), "or take module.symbol"),
        (lambda net: [net], r"mx\.sym\.Group\(\[\.\.\.\]\)"),
        (lambda net: None, "built of mx.sym.Variable"),
    ],
)
def test_what_is_no_symbol_is_told_how_to_become_one(model, given, way):
    with pytest.raises(tofu.UnsupportedError, match=rf"needs an mx\.sym\.Symbol, not [\s\S]*{way}"):
        tofu.partition(given(model.symbol), 2)


@pytest.mark.parametrize("name", ["data_shapes", "shapes"])
def test_shapes_in_a_list_are_told_to_be_given_by_name(model, name):
    with pytest.raises(tofu.ShapeError, match=r"given by the inputs' names: data=\(64, 784\)"):
        tofu.partition(model.symbol, 2, **{name: [("data", (12, 17))]})


@pytest.mark.parametrize(
    ("ctx", "message"),
    [(mx.gpu(0), r"gpu\(0\) does not exist\. Name cpu\(0\)"), ("cpu", r"not 'cpu' \(a str\)\. Write mx\.cpu")],
)
def test_a_context_that_there_is_not(model, ctx, message):
    symbol = tofu.partition(model.symbol, 2)
    for bind in (lambda: symbol.simple_bind(ctx, data=(12, 17)), lambda: symbol.bind(ctx, {})):
        with pytest.raises(tofu.DeviceError, match=message):
            bind()


def test_what_simple_bind_is_given_beside_shapes(model, caplog):
    symbol = tofu.partition(model.symbol, 2)
    symbol.simple_bind(mx.cpu(), data=(12, 17), layout="NC")
    assert "simple_bind ignores layout" in caplog.text
    with pytest.raises(tofu.ShapeError, match="A shape is a tuple"):
        symbol.simple_bind(mx.cpu(), data=12)


@pytest.mark.parametrize(
    ("name", "way"),
    [("Module", "use tofu.mod.Module"), ("load", "use mx.sym.load"), ("partiton", "did you mean partition")],
)
def test_names_that_tofu_does_not_have(name, way):
    with pytest.raises(AttributeError, match=way):
        getattr(tofu, name)


def test_placement_by_hand_says_where_whole_arrays_are(caplog):
    with mx.AttrScope(ctx_group="first"):
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc0")
    with mx.AttrScope(ctx_group="second"):
        net = mx.sym.FullyConnected(net, num_hidden=4, name="fc1")
    groups = {"first": mx.cpu(1), "second": mx.cpu(2)}
    executor = tofu.partition(net, 2).simple_bind(mx.cpu(), group2ctx=groups, data=(4, 6))
    assert executor.arg_dict["fc0_weight"].context == mx.cpu(1)
    assert executor.grad_dict["fc1_weight"].context == mx.cpu(2)
    assert "the plan decides which worker computes what" in caplog.text
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((4, 4)))
    assert tofu.memory_report(net, 2, data=(4, 6)).one_device.pool_bytes > 0  # of a model that is in groups throughout


def test_a_model_that_nothing_of_can_be_split(caplog):
    net = mx.sym.FullyConnected(mx.sym.Variable("data", shape=(1, 1)), num_hidden=1, name="fc")
    with pytest.raises(tofu.InfeasibleError, match="3 workers cannot be fed"):
        tofu.partition(net, 3).simple_bind(mx.cpu(), data=(1, 1))
    outputs = []
    for symbol in (net, tofu.partition(net, 3, on_infeasible="replicate")):
        executor = symbol.simple_bind(mx.cpu(), data=(1, 1), type_dict={"data": "float64"})
        for number, array in enumerate(executor.arg_dict.values()):
            array[:] = number + 0.5
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((1, 1), dtype="float64"))
        outputs.append([array.asnumpy().item() for array in [*executor.outputs, *executor.grad_arrays]])
    assert outputs[1] == outputs[0]
    assert "3 workers cannot be fed" in caplog.text
    with pytest.raises(tofu.UnsupportedError, match="on_infeasible= is one of 'error', 'replicate', not 'split'"):
        tofu.partition(net, 3, on_infeasible="split")


def test_a_model_without_arguments():
    net = mx.sym.ones((4, 3)) + 2 * mx.sym.ones((4, 3))
    symbol = tofu.partition(net, 2)
    for executor in (symbol.simple_bind(mx.cpu()), symbol.bind(mx.cpu(), {})):
        assert executor.forward()[0].asnumpy().tolist() == [[3, 3, 3]] * 4


def test_a_reshape_that_does_not_come_out_even():
    """MXNet makes (5, 9) of (8, 6), and writes outside of its tensors on one device."""
    net = mx.sym.Reshape(mx.sym.Variable("data"), shape=(5, -1), name="odd")
    with pytest.raises(tofu.UnsupportedError, match=r"odd \(Reshape\): \(8, 6\) becomes \(5, 9\)"):
        tofu.partition(net, 2, data=(8, 6))


def test_memory_report_takes_the_options_of_partition(model):
    report = tofu.memory_report(model.symbol, 2, hints={"fc0_weight": 1}, data=(12, 17))
    assert (
        report.communication_bytes
        == tofu.partition(model.symbol, 2, hints={"fc0_weight": 1}, data=(12, 17)).plan.communication_bytes
    )
    with pytest.raises(tofu.DeviceError, match="must be a whole number"):
        tofu.memory_report(model.symbol, [2], data=(12, 17))


def test_failed_partition_leaves_the_symbol_alone(model):
    before = model.symbol.tojson()
    with pytest.raises(tofu.TofuError):
        tofu.partition(model.symbol, 2, hints={"nothing": 0}, data=(12, 17))
    assert model.symbol.tojson() == before
    assert tofu.partition(model.symbol, 2, data=(12, 17)).plan.workers == 2


def test_failed_bind_leaves_the_next_one_working(model):
    symbol = tofu.partition(model.symbol, 2)
    with pytest.raises(tofu.ShapeError):
        symbol.simple_bind(mx.cpu(), data=(12, 17), softmax_label=(11,))
    assert np.isfinite(symbol.simple_bind(mx.cpu(), data=(12, 17), softmax_label=(12,)).forward()[0].asnumpy()).all()


@pytest.mark.parametrize(
    "asked",
    [
        {"search_seconds": "x"},
        {"search_seconds": None},
        {"search_seconds": float("nan")},
        {"search_seconds": True},
        {"search_seconds": 10**400},
        {"hints": {5: 1}},
        {"hints": {("fc0_weight",): 0, "fc0": 0}},
        {"algorithm": []},
        {"cache": "x"},
        {"for_training": None},
        {"undescribed": []},
        {"memory_limit": 10**400},
        {"memory_limit": 2**63},
        {"topology": [10**400]},
        {"topology": [1e-320]},
        {"topology": [{"workers": 2**70, "bytes_per_second": 1}]},
        {"plan": "\0"},
        {"plan": "/dev/zero"},
        {"topology": "/dev/zero"},
        {"data": (2**63, 17)},
        {"data": (10**30, 17)},
        {"data": (2**40, 2**40)},
        {"data": (12, 2**33, 2**31 + 1)},  # their product wraps in 64 bits
        {"ngpus": 10**400},
    ],
    ids=lambda asked: repr(asked)[:50],
)
def test_values_of_any_kind_are_one_error(model, asked):
    with pytest.raises(tofu.TofuError) as error:
        tofu.partition(model.symbol, **{"ngpus": 2, "data": (12, 17), **asked})
    assert len(str(error.value)) < 1000
    assert tofu.partition(model.symbol, 2, data=(12, 17)).plan.workers == 2


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("sum", "must be one of write, add, null"),
        ({"fc_wieght": "add"}, r"does not have:\n  - fc_wieght"),
        (["write"], "has 1 entries"),
    ],
)
def test_requests_that_a_module_does_not_know(model, request_, message):
    module = tofu.mod.Module(model.symbol, context=[mx.cpu(0), mx.cpu(1)])
    with pytest.raises(tofu.TofuError, match=message):
        module.bind([("data", (12, 17))], [("softmax_label", (12,))], grad_req=request_)
