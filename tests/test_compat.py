"""Importing Tofu: numpy's removed names, and one line where MXNet is missing or another one."""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tofu.mxnet import compat as _compat

TOFU = Path(_compat.__file__).parents[1]


def import_error(preparation):
    """The message with which `import tofu` fails in a new process, after `preparation`."""
    code = textwrap.dedent(preparation) + textwrap.dedent("""
        try:
            import tofu
        except ImportError as error:
            print(error)
    """)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_missing_mxnet_is_one_line():
    message = import_error("import sys; sys.modules['mxnet'] = None")
    assert message.startswith("Tofu needs MXNet, which cannot be imported (")
    assert message.endswith("): pip install mxnet==1.9.1")
    assert len(message.splitlines()) == 1


def test_another_mxnet_is_one_line():
    message = import_error("""
        import sys, types
        sys.modules["mxnet"] = types.ModuleType("mxnet")
        sys.modules["mxnet"].__version__ = "1.6.0"
        sys.modules["mxnet"].__path__ = ["/somewhere/mxnet"]
    """)
    assert message == ("Tofu needs MXNet 1.9.1, but 1.6.0 is installed in /somewhere/mxnet: pip install mxnet==1.9.1")


def test_native_code_that_does_not_load_is_one_line():
    message = import_error("import sys; sys.modules['tofu._mxnet'] = None")
    assert message.startswith("Tofu's native code does not fit this Python or MXNet (")
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    "missing", ["tofu._core.search_exact", "tofu._mxnet.built_for_cuda", "tofu._mxnet.array_version"]
)
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
    assert message.startswith(
        f"Tofu's native code was built from other sources than its Python code ({module} has no {name}): make build"
    )
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
