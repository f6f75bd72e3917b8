"""Binding to emulated GPUs checks devices, access, kernels and memory, and reports problems in one line."""

import json

import pytest

# Each check uses other GPUs, because a process queries a GPU once.
CHECKS = """
import json, os, warnings
import tofu
import mxnet as mx
from tofu.mxnet.runtime.executor.gpus import check_gpus, prepare_gpus

mx.context.num_gpus = lambda: 16
net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
net = mx.sym.SoftmaxOutput(net, name="softmax")

def emit(net, **options):
    return tofu.partition(net, contexts=[mx.cpu(0), mx.cpu(1)], **options).execution_symbol

def gpus(first):
    return [mx.gpu(first), mx.gpu(first + 1)]

def say(check, action, *arguments, **environment):
    os.environ.update(environment)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lines = []
        try:
            action(*arguments)
        except (tofu.DeviceError, tofu.OutOfMemoryError) as error:
            lines.append(str(error))
    for name in environment:
        del os.environ[name]
    print(json.dumps([check, [*map(str, (warning.message for warning in caught)), *lines]]))

def bind(first):
    tofu.partition(net, contexts=gpus(first)).simple_bind(mx.cpu(), data=(4, 6))

symbol = emit(net, data=(4, 6))
say("alike", check_gpus, gpus(0))
"""
ON_ALL = (
    CHECKS
    + """
say("prepared", prepare_gpus, gpus(0), symbol)
loss = mx.sym.LinearRegressionOutput(mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn"), name="out")
prepare_gpus(gpus(0), emit(loss, hints={"bn": "b"}, data=(4, 6), out_label=(4, 6)))
print(json.dumps(["kernels", sorted({name.split("-")[0] for name in os.listdir(os.environ["TOFU_KERNEL_CACHE"])})]))
say("apart", prepare_gpus, gpus(2), symbol, EMULATED_NO_PEERS="2-3")
say("spoilt", prepare_gpus, gpus(4), symbol, EMULATED_SPOILT_READS="5-4")
say("staged", prepare_gpus, gpus(6), symbol, EMULATED_SPOILT_READS="7-6", TOFU_STAGE_FETCHES="1")
say("unknown", check_gpus, gpus(8), EMULATED_CAPABILITY="90")
say("unknown at bind", bind, 8)
say("mixed", check_gpus, [mx.gpu(0), mx.cpu(1)])
say("full", bind, 0, EMULATED_FREE_BYTES="100")
"""
)


def read(result):
    assert result.returncode == 0, result.stderr
    return dict(json.loads(line) for line in result.stdout.splitlines() if line.startswith("["))


def test_problems_of_gpus_are_reported_at_bind(run_emulated):
    said = read(run_emulated(ON_ALL))
    assert said["alike"] == said["prepared"] == []
    (apart,) = said["apart"]
    assert apart.startswith("These GPUs cannot read each other's memory.")
    assert "gpu(2) from gpu(3) " in apart
    assert "; gpu(3) from gpu(2) " in apart
    assert len(apart.splitlines()) == 1
    start = (
        "The graph cannot be bound to gpu(4), gpu(5): gpu(5) reads other bytes from the memory of gpu(4) than are there"
    )
    assert said["spoilt"][-1].startswith(start)
    assert "TOFU_STAGE_FETCHES=1" in said["spoilt"][-1]
    assert said["staged"][0].startswith("These GPUs cannot read each other's memory.")
    message = (
        "MXNet 1.9.1 has kernels for GPUs of compute capability 5.0 to 8.9, and gpu(8) is Emulated GPU (9.0); "
        "gpu(9) is Emulated GPU (9.0). Use GPUs up to the generations Ampere and Ada, or contexts=[mx.cpu(0), ...]."
    )
    assert said["unknown"] == said["unknown at bind"] == [message]
    assert said["mixed"] == ["Workers run on GPUs or on CPUs, not on both: the contexts include cpu(1) and gpu(0)."]
    (full,) = said["full"]
    assert full.startswith(
        "There is not enough memory for binding the model: gpu(0) has 100 B free, and the plan needs "
    )
    assert "; gpu(1) has 100 B free" in full
    assert "memory_limit=" in full
    assert "batch_norm.cu" in said["kernels"]  # compiled before the first run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "code", "fragments"),
    [
        (
            "TOFU_CUDA_DRIVER",
            CHECKS,
            ["gpu(0) cannot be used: the CUDA driver cannot be loaded (/nowhere/library.so: ", "use CPU contexts"],
        ),
        (
            "TOFU_NVRTC",
            CHECKS + "say('alike', prepare_gpus, gpus(0), symbol)",
            [
                "The graph cannot be bound to gpu(0), gpu(1): ",
                ": NVRTC, which compiles the kernels for this GPU, cannot be loaded (/nowhere/library.so)",
            ],
        ),
    ],
)
def test_missing_libraries_are_named_in_one_line(run_emulated, missing, code, fragments):
    (line,) = read(run_emulated(code, **{missing: "/nowhere/library.so"}))["alike"]
    assert line.startswith(fragments[0])
    assert fragments[1] in line
    assert len(line.splitlines()) == 1
