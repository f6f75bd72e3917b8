"""The module and libmxnet.so agree on layouts and calling conventions and hide their symbols from each other."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import mxnet as mx
import pytest

import tofu
from tests.nnvm.graphs import training_graph
from tofu import _mxnet

ROOT = Path(tofu.__file__).resolve().parent.parent


def load_gen_compat():
    spec = importlib.util.spec_from_file_location("gen_compat", ROOT / "csrc/nnvm/base/gen_compat.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_maps_of_many_sizes_arrive_whole():
    """libmxnet.so fills the unordered_map `attrs` and this module reads it, before and after it grew."""
    for size in (0, 1, 2, 11, 12, 13, 200):
        attrs = {f"__key{i}__": str(i) for i in range(size)}
        variable = mx.sym.Variable("x", attr=attrs)
        assert _mxnet.nodes(variable.handle.value)[0]["attrs"] == attrs


def test_nodes_made_here_are_freed_there():
    for _ in range(100):
        x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
        training = training_graph(x, ["fc_weight", "fc_bias"])
        assert len(training.list_outputs()) == 3


def test_exports_its_entry_point_alone():
    for module in ("_mxnet", "_core"):
        path = importlib.util.find_spec(f"tofu.{module}").origin
        lines = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
        assert [line.split()[-1] for line in lines.splitlines()] == [f"PyInit_{module}"]


def test_needs_no_mxnet_in_the_core():
    path = importlib.util.find_spec("tofu._core").origin
    code = (
        "import importlib.util as u, sys; "
        f"s = u.spec_from_file_location('_core', {path!r}); m = u.module_from_spec(s); s.loader.exec_module(m); "
        "sys.exit('mxnet' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_headers_stop_the_build():
    gen_compat = load_gen_compat()
    with pytest.raises(SystemExit) as stop:
        gen_compat.derive_header("bits/hashtable.h", "class _Hashtable {};")
    assert "bits/hashtable.h of this compiler has an unknown shape" in str(stop.value)
    assert "set CXX=g++-12" in str(stop.value)


def test_errors_keep_the_message_alone():
    fc = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc")
    with pytest.raises(RuntimeError) as error:
        _mxnet.infer(fc.handle.value, {"data": (4, 5), "fc_weight": (4, 7)}, {})
    assert str(error.value) == "Error in operator fc: Shape inconsistent, Provided = [4,7], inferred shape=(6,5)"
    with pytest.raises(RuntimeError) as error:
        _mxnet.operator_info("NoSuchOperator")
    assert str(error.value) == "Operator NoSuchOperator is not registered"
    with pytest.raises(RuntimeError) as error:
        _mxnet.nodes(0)
    assert str(error.value) == "Need the handle of a symbol, got a null handle"
