"""Build the extension modules with CMake; everything else about the package stands in pyproject.toml.

`tofu._core` is always built; `tofu._mxnet` where there is an MXNet to build it against. TOFU_LIBRARIES in the environment names a build
folder of the same sources, whose libraries, which know no Python, are linked instead of being compiled again.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
PARALLEL_JOBS = 2  # the sources that include MXNet's headers take about 1 GB each to compile


class BuildWithCMake(build_ext):
    """Hand all the extension modules to one CMake project."""

    def run(self) -> None:
        """Build into the working tree, or, for a wheel, into a folder that is thrown away."""
        require_compiler()
        require_headers()
        if not has_mxnet():
            print(f"tofu: MXNet is not installed for {sys.executable}, so tofu._mxnet is left out", file=sys.stderr)
        if self.inplace:  # a working tree: keep the objects, rebuild what changed
            # Apart, for CMake takes away what the modules of an environment with other packages were made of.
            kind = "native" if has_mxnet() else "core"
            self.build_all(ROOT / "build" / f"{kind}-{sys.implementation.cache_tag}", ROOT / "tofu")
            return
        with tempfile.TemporaryDirectory(prefix="tofu-build-") as scratch:
            self.build_all(Path(scratch), Path(self.build_lib).resolve() / "tofu")

    def build_all(self, build_dir: Path, target_dir: Path) -> None:
        """Configure and build in `build_dir`; the modules go to `target_dir`."""
        import cmake  # not at the top: `setup.py --version` and source distributions do without
        import ninja

        cmake_program = str(Path(cmake.CMAKE_BIN_DIR) / "cmake")
        configure = [
            cmake_program,
            *("-S", str(ROOT), "-B", str(build_dir), "-G", "Ninja", "--log-level=WARNING"),
            f"-DCMAKE_MAKE_PROGRAM={Path(ninja.BIN_DIR) / 'ninja'}",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={target_dir}",
            f"-DTOFU_LIBRARIES={os.environ.get('TOFU_LIBRARIES', '')}",
        ]
        quiet = [] if sys.stderr.isatty() else ["--", "--quiet"]  # a person who waits sees how many files are compiled
        build = [cmake_program, "--build", str(build_dir), "-j", str(PARALLEL_JOBS), *quiet]
        for command in (configure, build):
            status = subprocess.run(command, check=False, stdout=sys.stderr).returncode
            if status != 0:
                sys.exit("tofu: the native code was not built; the reason stands above")


def require_compiler() -> None:
    """Stop with one line where CMake would print a page."""
    compiler = os.environ.get("CXX", "c++").split()[0]
    if shutil.which(compiler) is None:
        sys.exit(f"tofu: {compiler}, the C++ compiler, is not installed: install g++")


def require_headers() -> None:
    """Stop with one line where CMake would print a page."""
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        major, minor = sys.version_info[:2]
        sys.exit(f"tofu: the header files of Python are not installed: install python{major}.{minor}-dev")


def has_mxnet() -> bool:
    """Whether there is an MXNet to build against; it is found, not imported, since it fails to import under some versions of NumPy."""
    mxnet = importlib.util.find_spec("mxnet")
    return mxnet is not None and (Path(mxnet.submodule_search_locations[0]) / "libmxnet.so").exists()


MODULES = ("tofu._core", "tofu._mxnet") if has_mxnet() else ("tofu._core",)

setup(
    ext_modules=[Extension(name, sources=[]) for name in MODULES],
    cmdclass={"build_ext": BuildWithCMake},
)
