"""What binding to GPUs checks and says, on emulated ones."""

PARTITIONED = """
import warnings
import tofu
import mxnet as mx
from tofu.mxnet.runtime.executor.gpus import check_gpus, prepare_gpus
net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
net = mx.sym.SoftmaxOutput(net, name="softmax")
symbol = tofu.partition(net, contexts=[mx.cpu(0), mx.cpu(1)], data=(4, 6)).execution_symbol
gpus = [mx.gpu(0), mx.gpu(1)]
def say(action, *arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            action(*arguments)
        except tofu.DeviceError as error:
            print(error)
    for warning in caught:
        print(warning.message)
"""


def test_gpus_that_read_each_other_are_prepared_in_silence(run_emulated):
    result = run_emulated(PARTITIONED + "say(check_gpus, gpus); say(prepare_gpus, gpus, symbol)")
    assert (result.returncode, result.stdout) == (0, ""), result.stderr


def test_pairs_without_access_are_named_once(run_emulated):
    result = run_emulated(PARTITIONED + "say(prepare_gpus, gpus, symbol)", EMULATED_NO_PEERS="0-1")
    lines = result.stdout.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("These GPUs cannot read each other's memory.")
    assert "gpu(0) from gpu(1) " in lines[0]
    assert "; gpu(1) from gpu(0) " in lines[0]


def test_generations_without_kernels_are_refused_in_one_line(run_emulated):
    result = run_emulated(PARTITIONED + "say(check_gpus, gpus)", EMULATED_CAPABILITY="90")
    assert result.stdout == (
        "MXNet 1.9.1 has kernels for GPUs of compute capability 5.0 to 8.9, and gpu(0) is Emulated GPU (9.0); "
        "gpu(1) is Emulated GPU (9.0). Use GPUs up to the generations Ampere and Ada, or contexts=[mx.cpu(0), ...].\n"
    ), result.stderr


def test_they_are_refused_when_a_model_is_bound(run_emulated):
    code = """
mx.context.num_gpus = lambda: 2
say(lambda: tofu.partition(net, ngpus=2).simple_bind(mx.cpu(), data=(4, 6)))
"""
    result = run_emulated(PARTITIONED + code, EMULATED_CAPABILITY="90")
    assert len(result.stdout.splitlines()) == 1, result.stderr
    assert "and gpu(0) is Emulated GPU (9.0); gpu(1) is Emulated GPU (9.0)." in result.stdout


def test_what_keeps_a_gpu_from_being_used_is_said_in_one_line(run_emulated):
    nowhere = "/nowhere/library.so"
    result = run_emulated(PARTITIONED + "say(check_gpus, gpus)", TOFU_CUDA_DRIVER=nowhere)
    lines = result.stdout.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("gpu(0) cannot be used: the CUDA driver cannot be loaded (/nowhere/library.so: ")
    result = run_emulated(PARTITIONED + "say(prepare_gpus, gpus, symbol)", TOFU_NVRTC=nowhere)
    lines = result.stdout.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("The graph cannot be bound to gpu(0), gpu(1): ")
    assert ": NVRTC, which compiles the kernels for this GPU, cannot be loaded (/nowhere/library.so)" in lines[0]


def test_cpus_and_gpus_are_not_mixed(run_emulated):
    result = run_emulated(PARTITIONED + "say(check_gpus, [mx.gpu(0), mx.cpu(1)])")
    assert result.stdout == "Workers run on GPUs or on CPUs, not on both: the contexts include cpu(1) and gpu(0).\n", (
        result.stderr
    )


def test_too_little_memory_is_said_when_a_model_is_bound(run_emulated):
    """MXNet would allocate, and fail, at the first run."""
    code = """
mx.context.num_gpus = lambda: 2
try:
    tofu.partition(net, ngpus=2).simple_bind(mx.cpu(), data=(4, 6))
except tofu.OutOfMemoryError as error:
    print(error)
"""
    result = run_emulated(PARTITIONED + code, EMULATED_FREE_BYTES="100")
    assert result.stdout.startswith(
        "There is not enough memory for binding the model: gpu(0) has 100 B free, and the plan needs "
    ), result.stdout + result.stderr
    assert "; gpu(1) has 100 B free" in result.stdout
    assert "memory_limit=" in result.stdout


def test_a_gpu_that_reads_other_bytes_than_are_there_is_named(run_emulated):
    result = run_emulated(PARTITIONED + "say(prepare_gpus, gpus, symbol)", EMULATED_SPOILT_READS="1-0")
    assert result.stdout.startswith(
        "The graph cannot be bound to gpu(0), gpu(1): gpu(1) reads other bytes from the memory of gpu(0) than are there"
    ), result.stdout + result.stderr
    assert "TOFU_STAGE_FETCHES=1" in result.stdout
    staged = run_emulated(
        PARTITIONED + "say(prepare_gpus, gpus, symbol)", EMULATED_SPOILT_READS="1-0", TOFU_STAGE_FETCHES="1"
    )
    assert staged.stdout.startswith("These GPUs cannot read each other's memory."), staged.stdout + staged.stderr


def test_kernels_of_parts_are_compiled_when_a_graph_is_bound(run_emulated, tmp_path):
    """Not at the first run, which would wait for it, and fail there."""
    code = """
from pathlib import Path
import os
net = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn")
net = mx.sym.LinearRegressionOutput(net, name="out")
symbol = tofu.partition(net, contexts=[mx.cpu(0), mx.cpu(1)], hints={"bn": "b"}, data=(4, 6), out_label=(4, 6)).execution_symbol
say(prepare_gpus, gpus, symbol)
print(*sorted({path.name.split("-")[0] for path in Path(os.environ["TOFU_KERNEL_CACHE"]).iterdir()}))
"""
    result = run_emulated(PARTITIONED + code)
    assert result.stdout.split() == ["batch_norm.cu", "multi_fetch.cu"], result.stdout + result.stderr
