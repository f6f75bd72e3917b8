import os
import pickle
import tracemalloc

import mxnet as mx
import numpy as np
import pytest

import tofu
from tests.shared.module_runs import (
    FEATURES,
    ModuleCase,
    batches,
    bind,
    largest_error,
    model,
    parameters_of,
    split_module,
    start,
    train,
    with_optimizer,
)
from tests.shared.optimizer_cases import CASES
from tofu.mxnet.runtime.checkpoint.checkpoint import ParameterFile
from tofu.mxnet.runtime.checkpoint.seal import MAGIC

# MXNet's Module leaves the file of states to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.* has no checksum:UserWarning"),  # of MXNet's files; test_damage.py expects it
]


def save(module, folder):
    prefix = str(folder / "model")
    module.save_checkpoint(prefix, 3, save_optimizer_states=True)
    return prefix


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.usefixtures("double_history")
def test_training_equals_one_device_and_resumes_on_any_number_of_workers_and_in_mxnet(case, tmp_path):
    steps = batches(10)  # some learning rates fall at the eighth
    mx.random.seed(7)
    whole = start(mx.mod.Module(model(case.bias)), case)
    train(whole, steps[:5])
    mx.random.seed(11)
    expected = train(whole, steps[5:])
    module = start(split_module(case), case)
    train(module, steps[:5])
    prefix = save(module, tmp_path)
    on_three, in_mxnet = (
        tofu.mod.Module.load(prefix, 3, load_optimizer_states=True, ngpus=3),
        mx.mod.Module(model(case.bias)),
    )
    in_mxnet._arg_params, in_mxnet._aux_params = mx.model.load_params(prefix, 3)
    in_mxnet.params_initialized, in_mxnet._preload_opt_states = True, f"{prefix}-0003.states"
    for loaded in (on_three, in_mxnet):
        with_optimizer(bind(loaded), case)
    for going_on in (module, on_three, in_mxnet):
        mx.random.seed(11)
        assert largest_error(train(going_on, steps[5:]), expected) < case.tolerance
    if case.optimizer != "test":
        assert module.optimizer.num_update == len(steps)  # once for each step, not for each worker


ADAM = ModuleCase("adam", {"learning_rate": 0.01})
MOMENTUM = ModuleCase("sgd", {"learning_rate": 0.01, "momentum": 0.9})


SCHEDULE = {"lr_scheduler": lambda: mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1), "momentum": 0.9}


@pytest.mark.parametrize(
    ("saved", "loaded", "fixed"),
    [
        (SCHEDULE, {"learning_rate": 0.05, "momentum": 0.9, "wd": 0.01}, []),
        (MOMENTUM.parameters, MOMENTUM.parameters, ["fc0_weight", "fc1_bias"]),
    ],
    ids=["other settings", "fixed parameters"],
)
def test_loaded_states_continue_with_the_settings_of_the_script(saved, loaded, fixed, tmp_path):
    """As in MXNet, the learning rate of the script applies, not the one that the file has."""
    steps, results = batches(6), []
    for kind, options in ((mx.mod.Module, {}), (tofu.mod.Module, {"ngpus": 2})):
        module = start(kind(model(), fixed_param_names=fixed, **options), ModuleCase("sgd", saved))
        train(module, steps[:3])
        prefix = save(module, tmp_path)
        again = bind(kind(model(), fixed_param_names=fixed, **options))
        again.init_params(arg_params=mx.model.load_params(prefix, 3)[0], aux_params={})
        with_optimizer(again, ModuleCase("sgd", loaded)).load_optimizer_states(f"{prefix}-0003.states")
        results.append(train(again, steps[3:]))
    assert again.optimizer.num_update == len(steps)
    assert largest_error(results[1], results[0]) < 1e-12


def test_a_file_without_a_step_count_warns(tmp_path):
    """MXNet's Module saves no step count, so Adam restarts its bias correction unless begin_num_update is passed."""
    steps = batches(10)
    single = start(mx.mod.Module(model()), ADAM)
    train(single, steps[:5])
    prefix = save(single, tmp_path)
    with pytest.raises(UserWarning, match=r"no count of steps.*Adam uses that count.*begin_num_update"):
        with_optimizer(bind(tofu.mod.Module.load(prefix, 3, True, ngpus=2)), ADAM)
    counted = ModuleCase("adam", {**ADAM.parameters, "begin_num_update": 5})
    found = train(with_optimizer(bind(tofu.mod.Module.load(prefix, 3, True, ngpus=2)), counted), steps[5:])
    assert largest_error(found, train(single, steps[5:])) < 1e-12


@pytest.mark.parametrize("wrap", [lambda run: run, mx.util.use_np_shape], ids=["legacy shapes", "numpy shapes"])
def test_files_begin_with_the_bytes_of_mxnets_files(wrap, tmp_path):
    wrap(check_bytes)(tmp_path)


def check_bytes(tmp_path):
    module = start(split_module(ADAM), ADAM)
    single = mx.mod.Module(model())
    bind(single).init_params(arg_params=module.get_params()[0], aux_params={})
    module.save_params(str(tmp_path / "ours.params"))
    single.save_params(str(tmp_path / "mxnets.params"))
    ours, mxnets = ((tmp_path / f"{name}.params").read_bytes() for name in ("ours", "mxnets"))
    assert ours.startswith(mxnets)
    assert ours[len(mxnets) :].endswith(MAGIC)  # MXNet does not read this far
    assert mx.nd.load(str(tmp_path / "ours.params")).keys() == mx.nd.load(str(tmp_path / "mxnets.params")).keys()
    train(module, batches(1))
    module.save_optimizer_states(str(tmp_path / "ours.states"))
    content = (tmp_path / "ours.states").read_bytes()
    assert b"tofu." not in content  # a process without Tofu reads it
    states, optimizer = pickle.loads(content)
    assert type(states[0][0]) is mx.nd.NDArray
    assert states[0][0].shape == (18, FEATURES)
    assert optimizer.num_update == 1


def test_moving_statistics_are_saved_as_auxiliary_states(tmp_path):
    net = mx.sym.BatchNorm(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc"), name="bn")
    net = mx.sym.SoftmaxOutput(net, name="softmax")
    module = bind(tofu.mod.Module(net, ngpus=2))
    module.init_params(mx.init.Xavier(), aux_params={"bn_moving_mean": mx.nd.arange(8)}, allow_missing=True)
    prefix = str(tmp_path / "model")
    module.save_checkpoint(prefix, 1)
    arguments, states = mx.model.load_params(prefix, 1)
    assert set(states) == {"bn_moving_mean", "bn_moving_var"} == set(net.list_auxiliary_states())
    assert set(arguments) == set(net.list_arguments()) - {"data", "softmax_label"}
    for loaded in (mx.mod.Module.load(prefix, 1), tofu.mod.Module.load(prefix, 1, ngpus=3)):
        assert bind(loaded).get_params()[1]["bn_moving_mean"].asnumpy().tolist() == list(range(8))


@pytest.mark.parametrize(
    ("make", "saved", "loaded", "message"),
    [
        (mx.mod.Module, MOMENTUM, ADAM, r"fc0_weight it keeps \[array, array\], the file has array"),
        (mx.mod.Module, ModuleCase("sgd"), MOMENTUM, r"SGD with these .* keeps array, the file has nothing"),
        (tofu.mod.Module, ADAM, MOMENTUM, r"the states of Adam, .* trains with SGD.*optimizer='adam'"),
    ],
    ids=str,
)
def test_states_of_another_optimizer_are_refused(make, saved, loaded, message, tmp_path):
    file = str(tmp_path / "a.states")
    module = start(make(model(), context=mx.cpu() if make is mx.mod.Module else [mx.cpu(0), mx.cpu(1)]), saved)
    train(module, batches(1))
    module.save_optimizer_states(file)
    with pytest.raises(tofu.TofuError, match=f"(?i){message}"):
        start(split_module(loaded), loaded).load_optimizer_states(file)


def test_a_checkpoint_keeps_its_plan_and_is_read_before_it_is_bound(tmp_path):
    """As in MXNet, a loaded module has its parameters at once."""
    module = start(split_module(ADAM), ADAM)
    prefix = save(module, tmp_path)
    for options in ({}, {"ngpus": 2}):
        loaded = tofu.mod.Module.load(prefix, 3, **options)
        loaded.init_params(mx.init.Zero())
        assert largest_error(parameters_of(loaded), parameters_of(module)) == 0
        assert largest_error(parameters_of(bind(loaded)), parameters_of(module)) == 0
        assert (loaded.plan == module.plan) == (not options)


def test_files_of_another_model_are_refused_and_change_nothing(tmp_path):
    module = start(split_module(ADAM), ADAM)
    train(module, batches(1))
    prefix = save(module, tmp_path)
    before = parameters_of(module)
    cut = tmp_path / "cut.params"
    arrays = mx.nd.load(f"{prefix}-0003.params")
    mx.nd.save(str(cut), {**arrays, "arg:fc0_weight": mx.nd.ones((17, 18)), "arg:fc1_bias": mx.nd.ones(13)})
    with pytest.raises(tofu.ShapeError, match=r"fc0_weight: \(17, 18\) given, \(18, 17\)[\s\S]*fc1_bias"):
        module.load_params(str(cut))
    del arrays["arg:out_bias"]
    mx.nd.save(str(cut), arrays)
    with pytest.raises(tofu.TofuError, match=r"missing[\s\S]*out_bias"):
        module.load_params(str(cut))
    for states in ([1, 2, 3], {0: (mx.nd.ones((9, 9)),) * 2}):
        cut.write_bytes(pickle.dumps(states))
        with pytest.raises(tofu.TofuError, match=r"no file of optimizer states|of another model"):
            module.load_optimizer_states(str(cut))
    assert largest_error(parameters_of(module), before) == 0
    module.load_params(f"{prefix}-0003.params")
    module.load_optimizer_states(f"{prefix}-0003.states")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8", "int64", "int8"])
def test_arrays_of_each_type_are_read(dtype, tmp_path):
    path, arrays = str(tmp_path / "a.params"), {}
    for name, shape in (("arg:a", (3, 4, 5)), ("arg:b", (1,)), ("aux:c", (7, 1))):
        arrays[name] = mx.nd.array(np.arange(np.prod(shape)).reshape(shape), dtype=dtype)
    mx.nd.save(path, arrays)
    file = ParameterFile(path)
    assert file.shapes == {name: array.shape for name, array in arrays.items()}
    for name, array in arrays.items():
        assert file[name].dtype == array.dtype
        assert (file[name].asnumpy() == array.asnumpy()).all()
    assert list(file.select("aux")) == ["c"]


@pytest.mark.parametrize("stype", ["row_sparse", "csr"])
def test_sparse_arrays_are_read(stype, tmp_path):
    path = str(tmp_path / "a.params")
    sparse = np.array([[0, 0, 1], [0, 0, 0], [2, 0, 3], [0, 0, 0]], "float32")
    mx.nd.save(path, {"arg:a": mx.nd.array(sparse).tostype(stype), "arg:b": mx.nd.ones(2)})
    file = ParameterFile(path)
    assert file.shapes == {"arg:a": (4, 3), "arg:b": (2,)}
    assert (file["arg:a"].asnumpy() == sparse).all()
    content = bytearray((tmp_path / "a.params").read_bytes())
    place = content.rindex(np.array([0, 2] if stype == "row_sparse" else [2, 0, 2], "int64").tobytes())
    content[place : place + 8] = (4).to_bytes(8, "little")
    (tmp_path / "a.params").write_bytes(content)
    with pytest.raises(tofu.TofuError, match="elements outside"):
        ParameterFile(path)


def test_saving_gathers_one_tensor_at_a_time(tmp_path):
    """Ten weights of 2 MB, and their momentum, are written within 5 MB of Python memory."""
    net = mx.sym.Variable("data")
    for i in range(10):
        net = mx.sym.FullyConnected(net, num_hidden=512, no_bias=True, name=f"fc{i}")
    module = tofu.mod.Module(net, label_names=None, ngpus=2)
    module.bind([("data", (4, 1024))])
    module.init_params()
    module.init_optimizer(optimizer_params={"momentum": 0.9})
    module.forward(mx.io.DataBatch([mx.nd.ones((4, 1024))]))
    module.backward([mx.nd.ones((4, 512))])
    module.update()
    mx.nd.waitall()
    for write in (module.save_params, module.save_optimizer_states):
        tracemalloc.start()
        write(str(tmp_path / "file"))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert os.path.getsize(tmp_path / "file") > 10 * 2**20
        assert peak < 5 * 2**20
