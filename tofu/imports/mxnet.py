"""Make MXNet 1.9.1 importable, and check that Tofu was built for the installed MXNet.

After `import tofu`, `import mxnet` works with NumPy 1.21 to 1.26, because Tofu restores names that NumPy has removed.
Tofu then extends MXNet's functions that load files, so that they also load partitioned models.
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
    else "MXNet 1.9.1 needs Python 3.10 to 3.12"
)

# Names that MXNet 1.9.1 uses and NumPy 1.24 removed, and the types that they stood for.
REMOVED_NUMPY_NAMES = {"bool": bool, "int": int, "float": float, "complex": complex, "object": object, "str": str}


def restore_numpy_names() -> None:
    """Define names that MXNet uses and that NumPy has removed."""
    for name, builtin in REMOVED_NUMPY_NAMES.items():
        if name not in vars(np) and not _numpy_has_deprecated_name(name):
            setattr(np, name, builtin)


def _numpy_has_deprecated_name(name: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy 1.20 to 1.23 have the name, but warn when it is read
        return hasattr(np, name)


def check_flavours() -> None:
    """Raise ImportError if MXNet for CPUs and MXNet for CUDA are both installed."""
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
    """Load the CUDA libraries of the nvidia-*-cu11 packages."""
    if not _is_installed("mxnet-cu112"):
        return
    packages = importlib.util.find_spec("nvidia")
    folders = packages.submodule_search_locations if packages is not None else None
    unloaded = [path for folder in folders or () for path in sorted(Path(folder).glob("*/lib/lib*.so.*"))]
    while unloaded:  # libraries depend on each other, so repeat until no more can be loaded
        still_unloaded = [path for path in unloaded if not _try_load(path)]
        if len(still_unloaded) == len(unloaded):
            return  # importing MXNet reports what is missing
        unloaded = still_unloaded


def _try_load(path: Path) -> bool:
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def import_mxnet() -> None:
    """Import MXNet. If this fails, raise a one-line ImportError that states what to install."""
    try:
        import mxnet
    except ImportError as error:
        raise ImportError(f"Tofu needs MXNet for this, which cannot be imported ({error}): {REMEDY}") from error
    if mxnet.__version__ != MXNET_VERSION:
        raise ImportError(
            f"Tofu needs MXNet {MXNET_VERSION}, but {mxnet.__version__} is installed in {mxnet.__path__[0]}: {REMEDY}"
        )


def import_native_layer() -> None:
    """Import `tofu._mxnet`. Raise ImportError if only one of `tofu._mxnet` and MXNet was built for CUDA."""
    import mxnet

    _mxnet = import_native("_mxnet")
    has_cuda = mxnet.runtime.Features().is_enabled("CUDA")
    if _mxnet.built_for_cuda != has_cuda:
        expected, installed = ("CPUs", "CUDA") if has_cuda else ("CUDA", "CPUs")
        raise ImportError(
            f"Tofu was built against MXNet for {expected}, and MXNet for {installed} is installed: "
            "build Tofu again (README.md, MXNet for CUDA)"
        )


def prepare() -> None:
    """Prepare the import of MXNet: restore NumPy's removed names, and load CUDA libraries."""
    restore_numpy_names()
    check_flavours()
    load_cuda_libraries()


def load() -> None:
    """Import MXNet and Tofu's native code for it. Raise a short ImportError if this fails."""
    prepare()
    import_mxnet()
    import_native_layer()


class MXNetHook(MetaPathFinder):
    """An import finder that prepares the import of MXNet, and extends MXNet afterwards."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module spec of MXNet, or None for all other modules."""
        if fullname != "mxnet":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _PreparingLoader(spec.loader)
        return spec


class _PreparingLoader(Loader):
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
            warnings.simplefilter("ignore")  # warnings about NumPy and distutils, not about the user's code
            self._loader.exec_module(module)
        if "tofu.mxnet" not in sys.modules:
            set_up()


def set_up() -> None:
    """Let MXNet's functions load partitioned models. If MXNet cannot be imported, do nothing."""
    with suppress(ImportError):
        import_module("tofu.mxnet")


def install() -> None:
    """Register the import finder. If MXNet is imported already, extend it now."""
    sys.meta_path.insert(0, MXNetHook())
    if "mxnet" in sys.modules:
        set_up()
