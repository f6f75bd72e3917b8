"""Builds csrc/cuda as a library for programs without MXNet, with nothing but a C++ compiler.

    python -m tests.cuda.native      builds all of them, and says where they are

The same sources are part of `tofu._mxnet`. A library is called by a hash of what it is made of, and built once: for a machine without a
compiler, it is built on another one and copied along, to the same place.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "cuda"
# The C++ runtime goes into the library, for machines without a compiler, and mixes with no other one in the process.
WITH_RUNTIME = ["-static-libgcc", "-static-libstdc++", "-Wl,--exclude-libs,ALL"]
FLAGS = [
    "-std=c++17",
    "-O1",  # half the time of -O2 to compile; what runs on a GPU is compiled there
    "-fPIC",
    "-fno-strict-aliasing",
    f"-I{ROOT / 'csrc'}",
    f"-I{ROOT / 'tests' / 'cuda'}",
]


def build_cuda_library() -> Path:
    """The library of csrc/cuda behind the C functions of csrc/bindings/cuda_library.cc."""
    return _build("tofu_cuda", [*_sources_of_cuda(), ROOT / "csrc/bindings/cuda_library.cc"], embeds=True)


def build_emulated_gpu() -> Path:
    """A CUDA driver and an NVRTC that run the kernels on the CPU, thread by thread; see tests/cuda/emulated_driver.cc."""
    return _build(
        "emulated_gpu", [ROOT / "tests/cuda/emulated_driver.cc", ROOT / "tests/cuda/emulation.cc"], embeds=False
    )


def build_gpu_parts() -> Path:
    """The program that checks and measures every kernel on a GPU; see tests/cuda/gpu_parts.cc. It finds its kernels on the CPU by name."""
    tests = [ROOT / "tests/cuda" / name for name in ("gpu_parts.cc", "gpu_fetches.cc", "emulation.cc")]
    return _build("gpu_parts", [*_sources_of_cuda(), *tests], embeds=True, links=("-rdynamic", "-lpthread"))


def _sources_of_cuda() -> list[Path]:
    return sorted((ROOT / "csrc/cuda").glob("*.cc"))


def _find_compiler() -> list[str]:
    """CXX, or the first C++ compiler that is installed; ziglang is one that pip installs, which always puts its runtime into a library."""
    given = os.environ.get("CXX", "").split()
    for command in [given] if given else [["g++"], ["c++"], ["clang++"]]:
        if shutil.which(command[0]) is not None:
            return [*command, *WITH_RUNTIME]
    if given or importlib.util.find_spec("ziglang") is None:
        missing = f"{given[0]} is not" if given else "No C++ compiler is"
        sys.exit(f"{missing} installed: install g++, pip install ziglang, or say CXX=/path/to/g++")
    return [sys.executable, "-m", "ziglang", "c++"]


def _build(name: str, sources: Sequence[Path], *, embeds: bool, links: Sequence[str] = ("-shared",)) -> Path:
    embed = ROOT / "csrc/cuda/embed_sources.py"
    kernels = [path for path in sorted((ROOT / "csrc/cuda").iterdir()) if path.suffix in (".cu", ".cuh")]
    headers = [
        *(ROOT / "csrc/cuda").glob("*.h"),
        *(ROOT / "tests/cuda").glob("*.h"),
        ROOT / "csrc/core/program/program.h",
    ]
    digest = hashlib.sha256(" ".join([*WITH_RUNTIME, *FLAGS[:-2], *links]).encode())
    for path in [*sources, *kernels, *sorted(headers), embed]:
        digest.update(path.read_bytes())
    library = FOLDER / f"{name}-{digest.hexdigest()[:16]}{'.so' if '-shared' in links else ''}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / f"{name}.lock", "w") as lock:  # tests run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        if library.exists():
            return library
        compiler = _find_compiler()
        if embeds:
            embedded = FOLDER / "kernel_sources.cc"
            subprocess.run([sys.executable, str(embed), str(embedded), *map(str, kernels)], check=True)
            sources = [*sources, embedded]
        part = library.with_suffix(".part")
        subprocess.run([*compiler, *FLAGS, *map(str, sources), *links, "-ldl", "-o", str(part)], check=True)
        part.rename(library)
    return library


if __name__ == "__main__":
    print(build_cuda_library(), build_emulated_gpu(), build_gpu_parts(), sep="\n")
