import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tofu.imports import mxnet as imports

TOFU = Path(imports.__file__).parents[1]


def run(code):
    options = ["-W", "error", "-W", "ignore:::mxnet", "-W", "ignore::DeprecationWarning:distutils"]
    command = [sys.executable, *options, "-c", textwrap.dedent(code)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_importing_tofu_imports_no_framework_and_changes_no_numpy():
    printed = run("""
        import sys
        import numpy, numpy.typing
        before = dict(vars(numpy))
        import tofu
        tofu.partition
        print({"mxnet", "jax", "tofu._core"} & sys.modules.keys(), dict(vars(numpy)) == before)
        tofu.op
        print("tdl_ops.mxnet.matmul" in sys.modules)
        @tofu.op("mine")
        def mine(x):
            return lambda i: x[i]
        print("tdl_ops.mxnet.matmul" in sys.modules, "mxnet" in sys.modules)
    """)
    assert printed.splitlines() == ["set() True", "False", "True False"]


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [("tofu", "mxnet"), ("mxnet", "tofu")])
def test_both_orders_of_import_give_mxnet_its_loaders(first, second, tmp_path):
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


IMPORT_MXNET = "import numpy as np; np.bool = bool; import mxnet; "


def without(module, name):
    """Return code that removes a name from the native module, as if it had not been rebuilt."""
    return IMPORT_MXNET + (
        f"import sys, types; parent = types.ModuleType('tofu'); parent.__path__ = ['{TOFU}']; "
        f"sys.modules['tofu'] = parent; import {module}; del {module}.{name}; del sys.modules['tofu']"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preparation", "message"),
    [
        (
            "import sys; sys.modules['mxnet'] = None",
            rf"Tofu needs MXNet for this, which cannot be imported \(.*\): {re.escape(imports.REMEDY)}$",
        ),
        (
            "import sys, types; sys.modules['mxnet'] = m = types.ModuleType('mxnet'); "
            "m.__version__ = '1.6.0'; m.__path__ = ['/somewhere/mxnet']",
            rf"Tofu needs MXNet 1.9.1, but 1.6.0 is installed in /somewhere/mxnet: {re.escape(imports.REMEDY)}$",
        ),
        (
            "import sys; sys.modules['tofu._mxnet'] = None",
            r"Tofu's native code is not built for this Python \(there is no tofu._mxnet for ",
        ),
        (
            without("tofu._core", "search_exact"),
            r"Tofu's native code does not match its Python code \(tofu._core has no search_exact\): make build",
        ),
        (
            without("tofu._mxnet", "array_version"),
            r"Tofu's native code does not match its Python code \(tofu._mxnet has no array_version\): make build",
        ),
        (
            "import importlib.metadata; importlib.metadata.version = lambda package: '1.9.1'",
            "mxnet and mxnet-cu112 are both installed, and have overwritten each other's files: ",
        ),
        (
            IMPORT_MXNET + "mxnet.runtime.Features.is_enabled = lambda features, name: name == 'CUDA'",
            "Tofu was built against MXNet for CPUs, and MXNet for CUDA is installed: build Tofu again",
        ),
    ],
    ids=["no MXNet", "another version", "not built", "older core", "older module", "two flavours", "another flavour"],
)
def test_problems_of_the_installation_are_one_line(preparation, message):
    code = f"{preparation}\ntry:\n    import tofu\n    tofu.bind\nexcept ImportError as error:\n    print(error)\n"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.match(message, result.stdout.strip())
    assert len(result.stdout.splitlines()) == 1


def test_the_command_line_without_mxnet_prints_one_line():
    code = "import sys, runpy; sys.modules['mxnet'] = None; sys.argv = ['tofu', 'ops']; runpy.run_module('tofu', run_name='__main__')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("Error: Tofu needs MXNet for this, which cannot be imported (")
    assert len(result.stderr.splitlines()) == 1


def test_removed_numpy_names_are_restored(monkeypatch):
    def like_numpy_1_24(name):
        raise AttributeError(name)

    monkeypatch.setattr(np, "__getattr__", like_numpy_1_24)
    for name in imports.REMOVED_NUMPY_NAMES:
        monkeypatch.delattr(np, name, raising=False)
    before = dict(vars(np))
    assert not hasattr(np, "bool")
    imports.restore_numpy_names()
    try:
        assert np.bool is bool
        assert np.object is object
    finally:
        for name in set(vars(np)) - set(before):
            delattr(np, name)


def test_existing_numpy_names_stay():
    before = set(vars(np))
    imports.restore_numpy_names()
    assert set(vars(np)) == before
