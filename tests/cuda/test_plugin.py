"""The operators' GPU code inside MXNet, on CPU contexts: kernels run thread by thread under an emulated driver."""

import mxnet as mx
import pytest

ON_EMULATED_GPUS = "import tofu, mxnet; from tofu import _mxnet; _mxnet.run_gpu_code_on_cpu()\n"


def run_tests(run_emulated, *arguments):
    """Run tests that were written for the CPU kernels, over the GPU's."""
    code = (
        f"{ON_EMULATED_GPUS}import pytest, sys; sys.exit(pytest.main({['-q', '-p', 'no:cacheprovider', *arguments]}))"
    )
    result = run_emulated(code)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_fetches_pass_the_tests_of_the_cpu_kernel(run_emulated):
    file = "tests/nnvm/test_multi_fetch.py"
    others = (f"{file}::test_may_overwrite_its_input", f"{file}::test_skipped_fetches_read_nothing")  # a CPU's own
    out = run_tests(run_emulated, file, *(f"--deselect={test}" for test in others))
    assert "passed" in out
    assert "failed" not in out


def test_parts_equal_those_of_the_cpu(run_emulated):
    """Sums in another order, the same formulas: the same numbers to the last bits. All of the module's own operators are there."""
    result = run_emulated("import tofu; from tests.cuda import part_cases; part_cases.main()")
    assert result.returncode == 0, result.stderr
    listed = {name for name in mx.operator.get_all_registered_operators() if name.startswith("_tofu_")}
    cloned = {
        name for name in listed if name.startswith("_tofu_clone_")
    }  # registered by tests that ran in this process before
    in_views = {
        name
        for name in listed
        if name.startswith(("_tofu_selfatt_", "_tofu_encdec_", "_tofu_multi_proposal", "_tofu_deformable_"))
    }  # by MXNet's own kernels
    assert set(result.stdout.split()) == listed - cloned - in_views - {
        "_tofu_multi_fetch",
        "_tofu_recorded_call",
        "_tofu_recorded_call_backward",
    }


def test_models_run_in_parts_as_on_one_device(run_emulated):
    """Plans that split statistics, through the graph executor: in place, added, forward and backward."""
    test = "tests/equality/test_normalized.py::test_batch_norm_of_each_attribute_and_axis"
    run_tests(run_emulated, f"{test}[{{'fix_gamma': True}}-('b', 'y1')]", f"{test}[{{'fix_gamma': True}}-('y0', 'c')]")


def test_a_fetch_does_not_overwrite_its_input(run_emulated):
    code = """
import mxnet as mx
from tests.nnvm.test_multi_fetch import invoke
array = mx.nd.ones(6)
try:
    invoke(array, array, num_args=1, shape="(6,)", pieces="0:3:0@3;3:3:0@0")
    array.wait_to_read()
except mx.MXNetError as error:
    print(error)
"""
    assert "a fetch on a GPU cannot overwrite its input 0: give it an output of its own" in (
        run_emulated(ON_EMULATED_GPUS + code).stdout
    )


@pytest.mark.parametrize("missing", ["TOFU_CUDA_DRIVER", "TOFU_NVRTC"])
def test_what_is_not_installed_is_named(run_emulated, missing):
    code = """
import mxnet as mx
from tests.nnvm.test_multi_fetch import invoke
try:
    invoke(mx.nd.ones(6), mx.nd.ones(6), num_args=1, shape="(6,)", pieces="0:6:0@0")
    mx.nd.waitall()
except mx.MXNetError as error:
    print(error)
"""
    out = run_emulated(ON_EMULATED_GPUS + code, **{missing: "/nowhere/library.so"}).stdout
    expected = {
        "TOFU_CUDA_DRIVER": "install NVIDIA's driver, or use CPU contexts",
        "TOFU_NVRTC": "NVRTC, which compiles the kernels for this GPU, cannot be loaded (/nowhere/library.so)",
    }
    assert expected[missing] in out


def test_prepares_the_fetches_of_a_bound_graph(run_emulated):
    """Tables are made before the first run; what cannot be read is counted and copied."""
    code = """
import mxnet as mx, numpy as np
from tests.shared.json_graph import JsonGraph, bind
graph = JsonGraph()
x = [graph.add("null", f"x{i}", group=f"d{i}", __shape__=(4, 5), __dtype__=0) for i in range(3)]
pieces = [((0, 0), (2, 5), [(1, (0, 0))]), ((2, 0), (2, 3), [(2, (2, 1))])]
symbol = graph.symbol(graph.fetch("region", x, (4, 5), pieces, "d0", dtype=0, fill=9))
print(_mxnet.prepare_gpu_kernels(symbol.handle.value, {f"d{i}": i for i in range(3)}))
executor = bind(symbol, {f"d{i}": mx.cpu(i) for i in range(3)})
for i in range(3):
    executor.arg_dict[f"x{i}"][:] = np.arange(20).reshape(4, 5) + 100 * i
print(executor.forward()[0].asnumpy().astype(int).tolist())
try:
    _mxnet.prepare_gpu_kernels(symbol.handle.value, {"d0": 0})
except RuntimeError as error:
    print(error)
"""
    result = run_emulated(ON_EMULATED_GPUS + code, EMULATED_NO_PEERS="0-2")
    assert result.stdout.splitlines() == [
        "[(0, 2, 44)]",  # from the 11th element, taken from the 16 bytes that it lies in, to the 19th
        "[[100, 101, 102, 103, 104], [105, 106, 107, 108, 109], [211, 212, 213, 9, 9], [216, 217, 218, 9, 9]]",
        "there is no GPU for the worker of x1",
    ], result.stderr
