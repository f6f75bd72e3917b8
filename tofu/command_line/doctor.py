"""`python -m tofu doctor`: check that the installed packages fit together."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module, metadata
from typing import NamedTuple

import click

from tofu import __version__
from tofu.errors import on_one_line
from tofu.imports.native import import_native

NVRTC = (
    "libnvrtc.so.13",
    "libnvrtc.so.12",
    "libnvrtc.so.11.2",
    "libnvrtc.so",
    "/usr/local/cuda/lib64/libnvrtc.so",
)  # the search order of csrc/cuda/compiler.cc


class Finding(NamedTuple):
    """The result of one check. `remedy` tells the user what to do. It is "" if the check passed."""

    subject: str
    found: str
    remedy: str = ""


@click.command()
def doctor() -> None:
    """Check the installation, and suggest remedies. The exit status is 1 if a check fails.

    \b
    Example:
        python -m tofu doctor
    """  # noqa: D301  click reads the escape
    findings = list(examine())
    width = max(len(finding.subject) for finding in findings)
    for subject, found, remedy in findings:
        click.echo(f"{subject:{width}}  {found}")
        if remedy:
            click.echo(f"{'':{width}}  -> {remedy}")
    sys.exit(1 if any(finding.remedy for finding in findings) else 0)


def examine() -> Iterator[Finding]:
    """Run all checks, and yield the result of each."""
    yield Finding("Tofu", f"{__version__} in {os.path.dirname(import_module('tofu').__file__ or '')}")
    yield Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield Finding("NumPy", _find_version("numpy"))
    failure = _try(partial(import_native, "_core"))
    yield Finding("core", "missing" if failure else "fits this Python", failure)
    if _find_version("mxnet", "mxnet-cu112") == NOT_INSTALLED:
        yield Finding("MXNet", f"{NOT_INSTALLED}; the planner and Tofu for JAX do not need it")
    else:
        yield from _examine_mxnet()
    yield Finding("JAX", _find_version("jax"))


NOT_INSTALLED = "not installed"


def _find_version(*packages: str) -> str:
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            return f"{metadata.version(package)}{f' ({package})' if package != packages[0] else ''}"
    return NOT_INSTALLED


def _examine_mxnet() -> Iterator[Finding]:
    from tofu.imports.mxnet import check_flavours, import_mxnet, import_native_layer

    version = _find_version("mxnet", "mxnet-cu112")
    failure = _try(check_flavours) or _try(import_mxnet)
    yield Finding("MXNet", version, failure)
    if failure:
        return
    yield Finding(
        "native code", "fits this MXNet" if not (failure := _try(import_native_layer)) else "does not fit", failure
    )
    if failure:
        return
    import mxnet as mx

    has_cuda = mx.runtime.Features().is_enabled("CUDA")
    gpus = mx.context.num_gpus() if has_cuda else 0
    yield Finding("MXNet runs on", f"CPUs and {gpus} GPUs" if has_cuda else "CPUs (it is built without CUDA)")
    yield from _examine_gpus(gpus)


def _examine_gpus(gpus: int) -> Iterator[Finding]:
    if gpus:
        from mxnet import gpu

        from tofu.mxnet.runtime.executor.gpus import check_gpus

        for number in range(gpus):
            yield Finding(f"GPU {number}", "seen", _try(partial(check_gpus, [gpu(number)])))
    user_library = os.environ.get("TOFU_NVRTC")
    library = next(
        (name for name in ((user_library,) if user_library else NVRTC) if not _try(partial(ctypes.CDLL, name))), ""
    )
    install_advice = "pip install nvidia-cuda-nvrtc-cu11, or set TOFU_NVRTC to the path of libnvrtc.so"
    remedy = install_advice if gpus and not library else ""
    yield Finding("NVRTC", library or "not found; GPUs need it, CPUs do not", remedy)


def _try(check: Callable[[], object]) -> str:
    try:
        check()
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        return on_one_line(error) or type(error).__name__
    return ""
