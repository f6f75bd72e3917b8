"""Build csrc/cuda as libraries and programs without MXNet (`python -m tests.cuda.native`).

For a machine without a compiler, build them elsewhere and copy them to the same path.
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
# The library contains the C++ runtime, for machines without a compiler.
WITH_RUNTIME = ["-static-libgcc", "-static-libstdc++", "-Wl,--exclude-libs,ALL"]
FLAGS = [
    "-std=c++17",
    "-O1",  # compiles twice as fast as -O2; GPU code is compiled on the GPU
    "-fPIC",
    "-fno-strict-aliasing",
    f"-I{ROOT / 'csrc'}",
    f"-I{ROOT / 'tests' / 'cuda'}",
]


def build_cuda_library() -> Path:
    return _build("tofu_cuda", [*_sources_of_cuda(), ROOT / "csrc/bindings/cuda_library.cc"], embeds=True)


def build_emulated_gpu() -> Path:
    """Build a CUDA driver and NVRTC that run kernels on the CPU; see tests/cuda/emulated_driver.cc."""
    sources = [ROOT / "tests/cuda" / name for name in ("emulated_driver.cc", "emulation.cc")]
    return _build("emulated_gpu", sources, embeds=False)


def build_gpu_parts() -> Path:
    tests = [ROOT / "tests/cuda" / name for name in ("gpu_parts.cc", "gpu_fetches.cc", "emulation.cc")]
    return _build("gpu_parts", [*_sources_of_cuda(), *tests], embeds=True, links=("-rdynamic", "-lpthread"))


def _sources_of_cuda() -> list[Path]:
    return sorted((ROOT / "csrc/cuda").glob("*.cc"))


def _find_compiler() -> list[str]:
    """Return CXX, or the first installed C++ compiler, or ziglang, which pip installs."""
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
    headers = [path for folder in ("csrc/cuda", "csrc/core", "tests") for path in (ROOT / folder).rglob("*.h")]
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
