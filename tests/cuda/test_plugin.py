"""The operators' GPU code inside MXNet on CPU contexts: an emulated driver runs kernels thread by thread."""

import mxnet as mx
import pytest

ON_EMULATED_GPUS = "import tofu, mxnet; from tofu import _mxnet; _mxnet.run_gpu_code_on_cpu()\n"


TESTS = [
    "tests/nnvm/test_multi_fetch.py",
    *(
        "--deselect=tests/nnvm/test_multi_fetch.py::test_overwrites_its_input",
        "--deselect=tests/nnvm/test_multi_fetch.py::test_skipped_fetches_read_nothing",
    ),
    "tests/cuda/test_part_requests.py",
    *(
        f"tests/equality/test_normalized.py::test_batch_norm_of_each_attribute_and_axis[{{'fix_gamma': True}}-{axes}]"
        for axes in ("('b', 'y1')", "('y0', 'c')")
    ),
]


@pytest.mark.slow
def test_gpu_kernels_pass_the_tests_of_cpu_kernels(run_emulated):
    arguments = ["-q", "-p", "no:cacheprovider", *TESTS]
    result = run_emulated(f"{ON_EMULATED_GPUS}import pytest, sys; sys.exit(pytest.main({arguments}))")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "passed" in result.stdout


@pytest.mark.slow
def test_parts_equal_their_cpu_kernels(run_emulated):
    result = run_emulated("import tofu; from tests.cuda import part_cases; part_cases.main()")
    assert result.returncode == 0, result.stderr
    listed = {name for name in mx.operator.get_all_registered_operators() if name.startswith("_tofu_")}
    own_kernels = (
        "_tofu_selfatt_",
        "_tofu_encdec_",
        "_tofu_multi_proposal",
        "_tofu_deformable_",
        "_tofu_ctc_loss",
    )  # MXNet's
    others = ("_tofu_clone_", *own_kernels, "_tofu_multi_fetch", "_tofu_recorded_call")
    assert set(result.stdout.split()) == {name for name in listed if not name.startswith(others)}


def test_fetches_are_prepared_before_the_first_run(run_emulated):
    """Tables are made, and inputs that the GPU cannot read are copied, before the first run."""
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
    overwrite = """
from tests.shared.json_graph import invoke
array = mx.nd.ones(6)
try:
    attributes = {"num_args": 1, "shape": "(6,)", "pieces": "0:3:0@3;3:3:0@0"}
    invoke("_tofu_multi_fetch", [array], attributes, array)
    array.wait_to_read()
except mx.MXNetError as error:
    print(str(error).splitlines()[-1])
"""
    result = run_emulated(ON_EMULATED_GPUS + code + overwrite, EMULATED_NO_PEERS="0-2")
    *lines, refused = result.stdout.splitlines()
    assert "a fetch on a GPU cannot overwrite its input 0: give it an output of its own" in refused
    assert lines == [
        "[(0, 2, 44)]",
        "[[100, 101, 102, 103, 104], [105, 106, 107, 108, 109], [211, 212, 213, 9, 9], [216, 217, 218, 9, 9]]",
        "there is no GPU for the worker of x1",
    ], result.stderr
