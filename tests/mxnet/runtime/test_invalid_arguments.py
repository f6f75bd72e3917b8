"""Errors for invalid arguments name the argument, the value seen and expected, and a remedy. They leave nothing changed."""

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


@pytest.mark.parametrize(
    ("options", "error", "fragments"),
    [
        ({"ngpus": 0}, tofu.DeviceError, ["ngpus is 0", "at least 1", "ngpus=1"]),
        ({"ngpus": -2}, tofu.DeviceError, ["ngpus is -2", "at least 1", "ngpus=1"]),
        ({"ngpus": 2.0}, tofu.DeviceError, ["whole number", "2.0"]),
        ({"ngpus": "2"}, tofu.DeviceError, ["whole number", "'2'"]),
        ({"ngpus": True}, tofu.DeviceError, ["whole number", "True"]),
        ({"ngpus": None}, tofu.DeviceError, ["ngpus=", "contexts=", "plan="]),
        (
            {"ngpus": 29},  # the limit is on prime factors: 36 workers are more than the longest axis, and have a plan
            tofu.InfeasibleError,
            ["29 workers", "29 parts", "k0 of fc1_backward, 18", "prime factor above 18, or a larger batch"],
        ),
        ({"dta": (4, 17)}, tofu.ShapeError, ["no such inputs", "dta", "data"]),
        ({"data": None, "softmax_label": (12,)}, tofu.ShapeError, ["data", "softmax_label"]),
        ({"fc0_weight": (18, 5)}, tofu.ShapeError, [r"data: \(12, 17\)", r"fc0_weight: \(18, 5\)"]),
        (
            {"ngpus": 3, "contexts": [mx.cpu(0), mx.cpu(1)]},
            tofu.DeviceError,
            ["ngpus says 3", "contexts says 2"],
        ),
        ({"contexts": [mx.cpu(0), mx.gpu(7)]}, tofu.DeviceError, ["sees no GPU", r"gpu\(7\)"]),
        ({"contexts": [mx.cpu(0), mx.cpu(0)]}, tofu.DeviceError, [r"cpu\(0\)", "more than once"]),
        ({"undescribed": "ignore"}, tofu.UnsupportedError, ["'error', 'replicate'", "'ignore'"]),
        ({"undescribed": None}, tofu.UnsupportedError, ["'error', 'replicate'", "None"]),
        ({"algorithms": "exact"}, tofu.ShapeError, ["algorithms='exact'", "did you mean algorithm="]),
        (
            {"data": None, "dat": (12, 17), "foo": 3},
            tofu.ShapeError,
            [
                r"it has data, softmax_label\), and these are no options \(ngpus, contexts, plan, ",
                "- foo=3$",
                r"- dat=\(12, 17\) \(did you mean data=\?\)",
            ],
        ),
        ({"data_shapes": [("data", (12, 17))]}, tofu.ShapeError, [r"passed by the inputs' names: data=\(64, 784\)"]),
        ({"shapes": [("data", (12, 17))]}, tofu.ShapeError, [r"passed by the inputs' names: data=\(64, 784\)"]),
    ],
    ids=str,
)
def test_invalid_option(model, options, error, fragments):
    options = {"ngpus": 2, "data": (12, 17), **options}
    if options["data"] is None:
        del options["data"]
    with refuses(error, *fragments):
        tofu.partition(model.symbol, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"search_seconds": "x"},
        {"search_seconds": None},
        {"search_seconds": float("nan")},
        {"search_seconds": True},
        {"search_seconds": 10**400},
        {"hints": {5: 1}},
        {"hints": {("fc0_weight",): 0, "fc0": 0}},
        {"hints": {"nothing": 0}},
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
    ids=lambda options: repr(options)[:50],
)
def test_any_value_gives_one_short_error_and_leaves_the_symbol_unchanged(model, options):
    before = model.symbol.tojson()
    with pytest.raises(tofu.TofuError) as error:
        tofu.partition(model.symbol, **{"ngpus": 2, "data": (12, 17), **options})
    assert len(str(error.value)) < 1000
    assert model.symbol.tojson() == before
    assert tofu.partition(model.symbol, 2, data=(12, 17)).plan.workers == 2


@pytest.mark.parametrize(
    ("symbol", "options", "fragments"),
    [
        (
            mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2),
            {"ngpus": 64, "data": (2, 2)},
            ["64 workers", "Use 8 workers"],
        ),
        (
            mx.sym.relu(mx.sym.Variable("data"), name="relu"),
            {"ngpus": 8, "data": (2, 2), "for_training": False},
            ["8 workers", "over 4 workers already", "longest is i. of relu, 1", "Use 4 workers, or a larger batch"],
        ),
        (
            mx.sym.contrib.MultiBoxPrior(mx.sym.Variable("data"), name="boxes0"),
            {"ngpus": 2, "data": (2, 3, 4, 4)},
            ["no operator of the model .boxes0. has an axis to split: .*opaque function. Use one device.$"],
        ),
    ],
    ids=["training", "inference", "no axis"],
)
def test_too_many_workers(symbol, options, fragments):
    with refuses(tofu.InfeasibleError, *fragments):
        tofu.partition(symbol, **options)


@pytest.mark.parametrize(
    ("workers", "shape"),
    [(np.int64(4), (12, 17)), (2, [12, 17]), (2, np.array([12, 17])), (2, (np.int32(12), 17)), (36, (12, 17)), (29, (29, 17))],
)  # fmt: skip
def test_workers_and_shapes_may_be_lists_and_numpy_integers(model, workers, shape):
    assert tofu.partition(model.symbol, workers, data=shape).plan.workers == workers


@pytest.mark.parametrize("shape", [64, "64,17", None, (12.0, 17), (0, 17), (-1, 17), {12, 17}, "ab", (12, "17")])
def test_invalid_shape(model, shape):
    for partition in (tofu.partition, lambda symbol, workers, **shapes: tofu.bind(tofu.partition(symbol, 2), **shapes)):
        with refuses(tofu.ShapeError, "tuple of positive whole numbers", re.escape(f"data={shape!r}")):
            partition(model.symbol, 2, data=shape)


def test_misspelt_option_of_other_functions(model):
    for call, misspelt, option in (
        (lambda **options: tofu.memory_report(model.symbol, 2, **options), "optimizr", "optimizer"),
        (lambda **options: tofu.frontier(model.symbol, 2, **options), "algorithms", "algorithm"),
        (lambda **options: tofu.bind(tofu.partition(model.symbol, 2), **options), "fixd", "fixed"),
    ):
        with refuses(tofu.ShapeError, rf"- {misspelt}='x' \(did you mean {option}=\?\)"):
            call(**{misspelt: "x", "data": (12, 17)})


@pytest.mark.parametrize("contexts", [["cpu(0)", "cpu(1)"], "cpu(0)", mx.cpu(0), [0, 1], 2, {mx.cpu(0), mx.cpu(1)}])
def test_invalid_contexts(model, contexts):
    for call in (
        lambda: tofu.partition(model.symbol, contexts=contexts),
        lambda: tofu.bind(model.symbol, contexts, data=(12, 17)),
        lambda: tofu.bind(tofu.partition(model.symbol, 2), contexts, data=(12, 17)),
        lambda: tofu.mod.Module(model.symbol, context=contexts),
    ):
        with refuses(tofu.DeviceError, "MXNet contexts", "contexts?=\\[mx.cpu\\(0\\), mx.cpu\\(1\\)\\]"):
            call()


def test_workers_of_a_partitioned_symbol_are_fixed(model):
    symbol = tofu.partition(model.symbol, 2)
    with refuses(tofu.DeviceError, "cpu\\(0\\), cpu\\(1\\)", "ngpus=4", "symbol.whole"):
        tofu.mod.Module(symbol, ngpus=4)
    with refuses(tofu.DeviceError, "cpu\\(2\\), cpu\\(3\\)"):
        tofu.bind(symbol, [mx.cpu(2), mx.cpu(3)], data=(12, 17))
    assert tofu.mod.Module(symbol, ngpus=2).symbol is symbol
    assert tofu.mod.Module(symbol, context=mx.cpu()).symbol is symbol  # what scripts pass to MXNet's module


def test_invalid_names(model):
    for option in ("data_names", "label_names", "fixed_param_names"):
        with refuses(tofu.TofuError, f"{option} takes a list", "\\['data'\\]"):
            tofu.mod.Module(model.symbol, ngpus=2, **{option: "data"})
    for option in ("data_names", "fixed_param_names"):
        with refuses(tofu.TofuError, "its inputs are data, softmax_label", "- pixels"):
            tofu.mod.Module(model.symbol, ngpus=2, **{option: ["pixels"]})
    symbol = tofu.partition(model.symbol, 2)
    with refuses(tofu.TofuError, "fixed takes a list"):
        tofu.bind(symbol, fixed="fc0_weight", data=(12, 17))
    names = {"fixed": ["fc9_weight"], "differentiated_inputs": ["dta"], "type_dict": {"fc8_weight": "float64"}}
    with refuses(tofu.TofuError, "not among the model's arguments", "fc9_weight", "dta", "fc8_weight"):
        tofu.bind(symbol, data=(12, 17), **names)


@pytest.mark.parametrize(
    ("convert", "remedy"),
    [
        (lambda net: net.tojson(), r"mx\.sym\.load_json\(text\) reads JSON"),
        (lambda net: "lenet-symbol.json", r"mx\.sym\.load\('lenet-symbol.json'\) reads a file"),
        (lambda net: mx.nd.ones(2), "from mx.sym.Variable"),
        (lambda net: mx.mod.Module(net), "or use module.symbol"),
        (lambda net: [net], r"mx\.sym\.Group\(\[\.\.\.\]\)"),
        (lambda net: None, "from mx.sym.Variable"),
    ],
)
def test_model_that_is_no_symbol(model, convert, remedy):
    with pytest.raises(tofu.UnsupportedError, match=rf"needs an mx\.sym\.Symbol, not [\s\S]*{remedy}"):
        tofu.partition(convert(model.symbol), 2)


@pytest.mark.parametrize(
    ("ctx", "message"),
    [(mx.gpu(0), r"gpu\(0\) does not exist\. Name cpu\(0\)"), ("cpu", r"not 'cpu' \(a str\)\. Write mx\.cpu")],
)
def test_invalid_context_of_bind(model, ctx, message):
    symbol = tofu.partition(model.symbol, 2)
    for bind in (lambda: symbol.simple_bind(ctx, data=(12, 17)), lambda: symbol.bind(ctx, {})):
        with pytest.raises(tofu.DeviceError, match=message):
            bind()


def test_simple_bind_ignores_unknown_options_with_a_warning(model, caplog):
    symbol = tofu.partition(model.symbol, 2)
    symbol.simple_bind(mx.cpu(), data=(12, 17), layout="NC")
    assert "simple_bind ignores layout" in caplog.text
    with pytest.raises(tofu.ShapeError, match="A shape is a tuple"):
        symbol.simple_bind(mx.cpu(), data=12)
    with pytest.raises(tofu.ShapeError):
        symbol.simple_bind(mx.cpu(), data=(12, 17), softmax_label=(11,))
    assert np.isfinite(symbol.simple_bind(mx.cpu(), data=(12, 17)).forward()[0].asnumpy()).all()


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("Module", "use tofu.mod.Module"), ("load", "use mx.sym.load"), ("partiton", "did you mean partition")],
)
def test_unknown_attributes_of_tofu(name, remedy):
    with pytest.raises(AttributeError, match=remedy):
        getattr(tofu, name)


def test_groups_placed_by_hand_keep_the_context_of_whole_arrays(caplog):
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
    assert tofu.memory_report(net, 2, data=(4, 6)).one_device.pool_bytes > 0


def test_an_infeasible_model_may_be_replicated(caplog):
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
    with pytest.raises(tofu.UnsupportedError, match="on_infeasible= must be one of 'error', 'replicate', not 'split'"):
        tofu.partition(net, 3, on_infeasible="split")


def test_memory_report_takes_the_options_of_partition(model):
    options = {"hints": {"fc0_weight": 1}, "data": (12, 17)}
    report = tofu.memory_report(model.symbol, 2, **options)
    assert report.communication_bytes == tofu.partition(model.symbol, 2, **options).plan.communication_bytes
    with pytest.raises(tofu.DeviceError, match="must be a whole number"):
        tofu.memory_report(model.symbol, [2], data=(12, 17))


@pytest.mark.parametrize(
    ("grad_req", "message"),
    [
        ("sum", "must be one of write, add, null"),
        ({"fc_wieght": "add"}, r"does not have:\n  - fc_wieght"),
        (["write"], "has 1 entries"),
    ],
)
def test_invalid_gradient_request(model, grad_req, message):
    module = tofu.mod.Module(model.symbol, context=[mx.cpu(0), mx.cpu(1)])
    with pytest.raises(tofu.TofuError, match=message):
        module.bind([("data", (12, 17))], [("softmax_label", (12,))], grad_req=grad_req)
