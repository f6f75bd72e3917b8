"""Scripts and notebooks as modules, with stand-ins for packages that load data or draw."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock, patch

from tests.shared.definitions import execute_definitions

# Packages for loading data, logging and drawing, which no training step needs.
STOOD_IN = (
    *("tensorflow", "tensorflow_datasets", "tensorflow_text", "torch", "torchvision", "datasets", "grain"),
    *("transformers", "gymnasium", "gym", "ale_py", "dm_env", "bsuite", "rlax", "clu", "tensorboard"),
    *("tensorboardX", "matplotlib", "PIL", "cv2", "sklearn", "sentencepiece", "dp_accounting"),
)
PACKAGES_THAT_PROBE = ("distrax", "einops")  # imported first, since they would take a stand-in for the real package
MAKERS = (
    *("namedtuple", "collections.namedtuple", "functools.partial", "partial"),
    *("jax.jit", "jax.vmap", "eqx.", "optax.", "stax."),
)


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        is_one = any(name == package or name.startswith(package + ".") for package in STOOD_IN)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_one else None

    def create_module(self, spec: Any) -> ModuleType:
        module = ModuleType(spec.name)
        module.__version__ = NAMES["__version__"]  # type: ignore[attr-defined]
        module.__getattr__ = lambda name: _stand_in(name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


NAMES = {"__version__": "9.9.9", "__name__": "stand_in", "__qualname__": "stand_in"}


class _Mock(MagicMock):
    def __getattr__(self, name: str) -> Any:
        return NAMES[name] if name in NAMES else super().__getattr__(name)


class _AnyAttribute(type):
    def __getattr__(cls, name: str) -> Any:
        return _stand_in(name)


def _stand_in(name: str) -> Any:
    """Return a class if the name is capitalized, since packages test for instances; else a mock."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name[0].isupper():
        return _AnyAttribute(name, (), {"__init__": lambda self, *_, **__: None})
    return _Mock(unsafe=True)  # packages have functions that begin with `assert`


def load_module(path: Path) -> ModuleType:
    _stand_in_for_packages(path.read_text())
    sys.path[:0] = [str(folder) for folder in path.parents[:3]]
    with suppress(ImportError):
        from absl import flags

        flags.FLAGS.mark_as_parsed()
    return importlib.import_module(path.stem)


def load_definitions(path: Path) -> ModuleType:
    """Return the functions, classes and constants of a notebook, or of a script that trains when imported."""
    _stand_in_for_packages(path.read_text())
    module = ModuleType(path.stem)
    sys.modules[path.stem] = module  # where classes look up annotations
    for text in _read_cells(path):
        with suppress(SyntaxError):  # a cell for IPython
            execute_definitions(text, path, module.__dict__, MAKERS)
    return module


def _read_cells(path: Path) -> Iterator[str]:
    if path.suffix != ".ipynb":
        yield path.read_text()
        return
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            lines = "".join(cell["source"]).splitlines()
            yield "\n".join(line for line in lines if not line.lstrip().startswith(("!", "%")))


def _stand_in_for_packages(text: str) -> None:
    for package in PACKAGES_THAT_PROBE:
        if f"import {package}" in text:
            importlib.import_module(package)
    if not any(isinstance(finder, _StandIns) for finder in sys.meta_path):
        sys.meta_path.append(_StandIns())


class _CalledError(Exception):
    """Raised to end a script when it calls the watched function."""


def first_call(run: Callable[[], Any], name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the function `name` that `run` compiles by jax.jit or equinox.filter_jit, and its first arguments.

    This finds training steps that are defined inside other functions.
    """
    found: list[Any] = []
    with _watched(name, found), suppress(_CalledError):
        run()
    if not found:
        raise LookupError(f"{name} was not called")
    return found[0]


@contextmanager
def _watched(name: str, found: list[Any]) -> Iterator[None]:
    import equinox
    import jax

    compilers = [(jax, "jit", jax.jit), (equinox, "filter_jit", equinox.filter_jit)]

    def watch(compiler: Callable[..., Any]) -> Callable[..., Any]:
        def compiled(function: Any = None, *args: Any, **options: Any) -> Any:
            if function is None:
                return lambda function: compiled(function, *args, **options)
            if getattr(function, "__name__", "") != name:
                return compiler(function, *args, **options)
            with _set(compilers):  # equinox compiles by jax.jit itself
                made = compiler(function, *args, **options)

            def call(*arguments: Any, **keywords: Any) -> Any:
                found.append((lambda *a: made(*a, **keywords), arguments))
                raise _CalledError

            return call

        return compiled

    with _set([(module, attribute, watch(compiler)) for module, attribute, compiler in compilers]):
        yield


@contextmanager
def _set(values: list[tuple[Any, str, Any]]) -> Iterator[None]:
    with ExitStack() as stack:
        for module, attribute, value in values:
            stack.enter_context(patch.object(module, attribute, value))
        yield
