"""Makes MXNet 1.9.1 importable, and checks that what is imported is what Tofu was built against.

Comes first of all modules: `import tofu` works before `import mxnet`, under every numpy from 1.21 to 1.26.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import re
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np

MXNET_VERSION = "1.9.1"

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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its warnings are about NumPy and distutils, not about the user's code
            import mxnet
    except ImportError as error:
        raise ImportError(f"Tofu needs MXNet, which cannot be imported ({error}): pip install mxnet==1.9.1") from error
    if mxnet.__version__ != MXNET_VERSION:
        raise ImportError(
            f"Tofu needs MXNet {MXNET_VERSION}, but {mxnet.__version__} is installed in "
            f"{mxnet.__path__[0]}: pip install mxnet==1.9.1"
        )


def import_native_layer() -> None:
    """Import `tofu._core` and `tofu._mxnet`; the latter plugs into the libmxnet.so loaded by now, and has to be built for its flavour."""
    import mxnet

    try:
        from tofu import _core as _core
        from tofu import _mxnet as _mxnet
    except ImportError as error:
        raise ImportError(
            f"Tofu's native code does not fit this Python or MXNet ({error}): pip install tofu again, or make build"
        ) from error
    for module in (_core, _mxnet):
        _check_complete(module)
    flavours = {False: "CPUs", True: "CUDA"}
    found = mxnet.runtime.Features().is_enabled("CUDA")
    if _mxnet.built_for_cuda != found:
        raise ImportError(
            f"Tofu was built against MXNet for {flavours[_mxnet.built_for_cuda]}, and MXNet for {flavours[found]} is installed: "
            "build Tofu again (README.md, MXNet for CUDA)"
        )


def _check_complete(module: ModuleType) -> None:
    """Raise ImportError where a module was built from older sources: it lacks a function that its stub has."""
    stub = Path(__file__).parent.with_name(f"{module.__name__.rpartition('.')[2]}.pyi").read_text()
    missing = [name for name in re.findall(r"^(?:def )?([a-z]\w*)(?:\(|: )", stub, re.M) if not hasattr(module, name)]
    if missing:
        raise ImportError(
            f"Tofu's native code was built from other sources than its Python code ({module.__name__} has no {missing[0]}): make build, or "
            "pip install tofu again"
        )


restore_numpy_names()
check_flavours()
load_cuda_libraries()
import_mxnet()
import_native_layer()
