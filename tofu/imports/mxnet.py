"""Makes MXNet 1.9.1 importable, and checks that what is imported is what Tofu was built against.

After `import tofu`, `import mxnet` works under every NumPy from 1.21 to 1.26: a finder, which Python asks before it looks for MXNet
itself, gives NumPy its old names back first, and has Tofu's side of MXNet (its loaders of files) set up after.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tofu.imports.native import import_native

MXNET_VERSION = "1.9.1"
REMEDY = (
    'pip install mxnet==1.9.1 "numpy<1.27", then Tofu again, which is compiled for it'
    if sys.version_info < (3, 13)
    else "MXNet 1.9.1 runs on Python 3.10 to 3.12; take one of them"
)

# Names that MXNet 1.9.1 uses and numpy 1.24 removed, with what numpy said they were.
REMOVED_NUMPY_NAMES = {"bool": bool, "int": int, "float": float, "complex": complex, "object": object, "str": str}


def restore_numpy_names() -> None:
    """Give numpy back those of its old names that it no longer has."""
    for name, builtin in REMOVED_NUMPY_NAMES.items():
        if name not in vars(np) and not _numpy_still_answers(name):
            setattr(np, name, builtin)


def _numpy_still_answers(name: str) -> bool:
    """Numpy 1.20 to 1.23 answers with a warning, and from 1.24 with an AttributeError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hasattr(np, name)


def check_flavours() -> None:
    """Raise ImportError where MXNet is installed for CPUs and for CUDA: both are one folder, and overwrite each other's files."""
    if _is_installed("mxnet") and _is_installed("mxnet-cu112"):
        raise ImportError(
            "mxnet and mxnet-cu112 are both installed, and have overwritten each other's files: pip uninstall mxnet mxnet-cu112, then "
            "install one of them and Tofu again (README.md, MXNet for CUDA)"
        )


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def load_cuda_libraries() -> None:
    """Load what MXNet for CUDA is linked to, out of the nvidia-*-cu11 packages, which the loader does not search."""
    if not _is_installed("mxnet-cu112"):
        return
    packages = importlib.util.find_spec("nvidia")
    folders = packages.submodule_search_locations if packages is not None else None
    waiting = [path for folder in folders or () for path in sorted(Path(folder).glob("*/lib/lib*.so.*"))]
    while waiting:  # libraries need each other: load what can be loaded until nothing more can
        left = [path for path in waiting if not _is_loaded(path)]
        if len(left) == len(waiting):
            return  # what is missing is named as MXNet is imported
        waiting = left


def _is_loaded(path: Path) -> bool:
    """Whether the library at `path` is in the process, after an attempt to load it."""
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def import_mxnet() -> None:
    """Import MXNet, or raise an ImportError of one line that says what to install."""
    try:
        import mxnet
    except ImportError as error:
        raise ImportError(f"Tofu needs MXNet for this, which cannot be imported ({error}): {REMEDY}") from error
    if mxnet.__version__ != MXNET_VERSION:
        raise ImportError(
            f"Tofu needs MXNet {MXNET_VERSION}, but {mxnet.__version__} is installed in {mxnet.__path__[0]}: {REMEDY}"
        )


def import_native_layer() -> None:
    """Import `tofu._mxnet`, which plugs into the libmxnet.so loaded by now, and has to be built for its flavour."""
    import mxnet

    _mxnet = import_native("_mxnet")
    flavours = {False: "CPUs", True: "CUDA"}
    found = mxnet.runtime.Features().is_enabled("CUDA")
    if _mxnet.built_for_cuda != found:
        raise ImportError(
            f"Tofu was built against MXNet for {flavours[_mxnet.built_for_cuda]}, and MXNet for {flavours[found]} is installed: "
            "build Tofu again (README.md, MXNet for CUDA)"
        )


def prepare() -> None:
    """What has to be done before MXNet is imported."""
    restore_numpy_names()
    check_flavours()
    load_cuda_libraries()


def load() -> None:
    """Import MXNet and what Tofu has for it. Raises an ImportError of one line."""
    prepare()
    import_mxnet()
    import_native_layer()


class MXNetHook(MetaPathFinder):
    """Prepares for the import of MXNet, and has Tofu's side of it set up after."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """MXNet as it is found without this, but that its loader prepares and completes."""
        if fullname != "mxnet":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Prepared(spec.loader)
        return spec


class _Prepared(Loader):
    """Loads MXNet as its own loader does."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        prepare()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its warnings are about NumPy and distutils, not about the user's code
            self._loader.exec_module(module)
        if "tofu.mxnet" not in sys.modules:
            set_up()


def set_up() -> None:
    """Give MXNet its Tofu side, as far as it can be: what is wrong is said where Tofu is used."""
    with suppress(ImportError):
        import_module("tofu.mxnet")


def install() -> None:
    """Have Python ask here first. MXNet that is imported already gets Tofu's side now."""
    sys.meta_path.insert(0, MXNetHook())
    if "mxnet" in sys.modules:
        set_up()
