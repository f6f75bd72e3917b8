"""Importing Tofu: no framework before it is used, MXNet importable after it, and one line where MXNet is missing."""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tofu.imports import mxnet as _compat

TOFU = Path(_compat.__file__).parents[1]


def import_error(preparation):
    """The message with which `tofu.bind` fails in a new process, after `preparation`."""
    code = textwrap.dedent(preparation) + textwrap.dedent("""
        try:
            import tofu
            tofu.bind
        except ImportError as error:
            print(error)
    """)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return result.stdout.strip()


def run(code):
    """What a new process prints; a warning is an error there, but for MXNet's own."""
    options = ["-W", "error", "-W", "ignore:::mxnet", "-W", "ignore::DeprecationWarning:distutils"]
    result = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_import_of_tofu_imports_no_framework_and_changes_nothing_in_numpy():
    printed = run("""
        import sys
        import numpy, numpy.typing
        before = dict(vars(numpy))
        import tofu
        print("mxnet" in sys.modules, "jax" in sys.modules, dict(vars(numpy)) == before)
    """)
    assert printed == "False False True"


def test_descriptions_are_registered_when_one_is_looked_up():
    printed = run("""
        import sys
        import tofu
        @tofu.op("mine")
        def mine(x):
            return lambda i: x[i]
        print("tdl_ops.mxnet.matmul" in sys.modules, "mxnet" in sys.modules)
    """)
    assert printed == "True False"
    printed = run("import sys, tofu; tofu.op; print('tdl_ops.mxnet.matmul' in sys.modules)")
    assert printed == "False"


@pytest.mark.parametrize("first", ["tofu", "mxnet"])
def test_both_orders_of_import_give_mxnet_its_loaders(first, tmp_path):
    """A saved partition read back by MXNet's own function is one again."""
    second = {"tofu": "mxnet", "mxnet": "tofu"}[first]
    printed = run(f"""
        import warnings
        import numpy
        warnings.simplefilter("ignore")
        for name in ("bool", "int", "float", "object", "complex"):
            if "{first}" == "mxnet" and name not in vars(numpy):
                setattr(numpy, name, getattr(__builtins__, name))
        import {first}
        import {second}
        import mxnet as mx
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc")
        tofu.partition(net, 2).save("{tmp_path}/model.json")
        print(type(mx.sym.load("{tmp_path}/model.json")).__name__)
    """)
    assert printed == "PartitionedSymbol"


def test_missing_mxnet_is_one_line():
    message = import_error("import sys; sys.modules['mxnet'] = None")
    assert message.startswith("Tofu needs MXNet for this, which cannot be imported (")
    assert message.endswith(f"): {_compat.REMEDY}")
    assert len(message.splitlines()) == 1


def test_the_command_line_without_mxnet_is_one_line():
    code = "import sys, runpy; sys.modules['mxnet'] = None; sys.argv = ['tofu', 'ops']; runpy.run_module('tofu', run_name='__main__')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("Error: Tofu needs MXNet for this, which cannot be imported (")
    assert len(result.stderr.splitlines()) == 1


def test_another_mxnet_is_one_line():
    message = import_error("""
        import sys, types
        sys.modules["mxnet"] = types.ModuleType("mxnet")
        sys.modules["mxnet"].__version__ = "1.6.0"
        sys.modules["mxnet"].__path__ = ["/somewhere/mxnet"]
    """)
    assert message == f"Tofu needs MXNet 1.9.1, but 1.6.0 is installed in /somewhere/mxnet: {_compat.REMEDY}"


def test_native_code_that_is_not_there_is_one_line():
    message = import_error("import sys; sys.modules['tofu._mxnet'] = None")
    assert message.startswith("Tofu's native code is not built for this Python (there is no tofu._mxnet for ")
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("missing", ["tofu._core.search_exact", "tofu._mxnet.array_version"])
def test_native_code_of_older_sources_is_one_line(missing):
    """As after a pull without a build."""
    module, name = missing.rsplit(".", 1)
    message = import_error(f"""
        import sys, types
        import numpy as np
        np.bool = bool
        import mxnet
        parent = types.ModuleType("tofu")
        parent.__path__ = ["{TOFU}"]
        sys.modules["tofu"] = parent
        import {module}
        del {module}.{name}
        del sys.modules["tofu"]
    """)
    assert message.startswith(f"Tofu's native code does not match its Python code ({module} has no {name}): make build")
    assert len(message.splitlines()) == 1


def test_two_flavours_of_mxnet_are_one_line():
    message = import_error("import importlib.metadata; importlib.metadata.version = lambda package: '1.9.1'")
    assert message.startswith("mxnet and mxnet-cu112 are both installed, and have overwritten each other's files: ")
    assert len(message.splitlines()) == 1


def test_another_flavour_than_built_for_is_one_line():
    message = import_error("""
        import numpy as np
        np.bool = bool
        import mxnet
        mxnet.runtime.Features.is_enabled = lambda features, name: name == "CUDA"
    """)
    assert message.startswith(
        "Tofu was built against MXNet for CPUs, and MXNet for CUDA is installed: build Tofu again"
    )
    assert len(message.splitlines()) == 1


def test_removed_numpy_names_come_back(monkeypatch):
    def like_numpy_1_24(name):
        raise AttributeError(name)

    monkeypatch.setattr(np, "__getattr__", like_numpy_1_24)
    for name in _compat.REMOVED_NUMPY_NAMES:  # Tofu has restored them where they were missing
        monkeypatch.delattr(np, name, raising=False)
    before = dict(vars(np))
    assert not hasattr(np, "bool")
    _compat.restore_numpy_names()
    try:
        assert np.bool is bool
        assert np.object is object
    finally:
        for name in set(vars(np)) - set(before):
            delattr(np, name)


def test_names_that_are_there_stay():
    before = set(vars(np))
    _compat.restore_numpy_names()
    assert set(vars(np)) == before
