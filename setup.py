"""Build the native modules into the working tree, for work on Tofu, in an environment with CMake and Ninja.

    python setup.py            everything that this environment can use
    python setup.py _core      the core alone, without the module for MXNet

Packages are built from pyproject.toml, by `pip install .` or `python -m build`. TOFU_LIBRARIES in the environment names a build folder
of the same sources, whose libraries are linked instead of being compiled again. With TOFU_WARNINGS=ON every warning is an error.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent
PARALLEL_JOBS = 2  # the sources that include MXNet's headers take about 1 GB each to compile


def build(target: str = "all") -> None:
    """Compile what has changed, and put the modules beside the Python sources. Exits with one line if a tool is missing."""
    require_tools()
    kind = "native" if importlib.util.find_spec("mxnet") else "core"
    folder = ROOT / "build" / f"{kind}-{sys.implementation.cache_tag}"
    cmake, ninja = (shutil.which(name, path=find_scripts()) for name in ("cmake", "ninja"))
    configure = [
        *(cmake, "-S", ROOT, "-B", folder, "-G", "Ninja", "--log-level=WARNING", f"-DCMAKE_MAKE_PROGRAM={ninja}"),
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={ROOT / 'tofu'}",
        f"-DTOFU_LIBRARIES={os.environ.get('TOFU_LIBRARIES', '')}",
        f"-DTOFU_WARNINGS={os.environ.get('TOFU_WARNINGS', 'OFF')}",
    ]
    quiet = [] if sys.stderr.isatty() else ["--", "--quiet"]  # a person who waits sees how many files are compiled
    build_command = [cmake, "--build", folder, "--target", target, "-j", str(PARALLEL_JOBS), *quiet]
    for command, output in ((configure, subprocess.DEVNULL), (build_command, sys.stderr)):
        if subprocess.run(list(map(str, command)), check=False, stdout=output).returncode != 0:
            sys.exit("tofu: the native code was not built; the reason stands above")


def find_scripts() -> str:
    """Return the search path of programs, with those of this environment first."""
    return os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])


def require_tools() -> None:
    """Exit with one line for what CMake would report in a page."""
    compiler = os.environ.get("CXX", "c++").split()[0]
    if shutil.which(compiler) is None:
        sys.exit(f"tofu: {compiler}, the C++ compiler, is not installed: install g++")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        major, minor = sys.version_info[:2]
        sys.exit(f"tofu: the header files of Python are not installed: install python{major}.{minor}-dev")
    for name in ("cmake", "ninja"):
        if shutil.which(name, path=find_scripts()) is None:
            sys.exit(f"tofu: {name} is not installed: pip install {name}")


if __name__ == "__main__":
    build(*sys.argv[1:2])
