"""Check that C++ files include only the folders and headers that the tables below allow. `make lint` runs this.

    python csrc/check_includes.py

Print a line for each other include; exit with 1 if there is one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

CSRC = Path(__file__).parent

# The other folders that a folder may include. In processing order: a folder includes only folders above it.
FOLDERS = {
    "core/base": "",
    "core/graph": "core/base",
    "core/geometry": "core/base core/graph",
    "core/cost": "core/base core/graph core/geometry",
    "core/elimination": "core/base",
    "core/bounds": "core/base core/elimination",
    "core/search": "core/base core/graph core/geometry core/cost core/elimination core/bounds",
    "core/program": "core/base core/graph core/geometry core/cost",
    "cuda": "core/base core/program",
    "nnvm/base": "core/base core/program cuda",
    "nnvm/graph": "core/base core/program nnvm/base",
    "nnvm/fetch": "core/base core/program cuda nnvm/base nnvm/graph",
    "nnvm/parts": "core/base core/program cuda nnvm/base",
    "nnvm/execution": "core/base core/program nnvm/base nnvm/graph nnvm/fetch nnvm/parts",
    "nnvm/memory": "core/base core/program nnvm/base nnvm/graph nnvm/fetch nnvm/execution",
    "nnvm/autograd": "nnvm/base",
    "bindings": "core/base core/graph core/geometry core/cost core/search core/program cuda"
    " nnvm/base nnvm/graph nnvm/fetch nnvm/execution nnvm/memory nnvm/autograd",
}

# Other headers that a folder may include, by the beginnings of their names. Standard headers, without folder and ending, are always
# allowed.
OUTSIDE = {
    "core": ("sys/mman.h",),
    "cuda": ("dlfcn.h", "locale.h", "math.h", "sys/stat.h", "unistd.h"),
    "nnvm": ("dmlc/", "emmintrin.h", "mxnet/", "nnvm/"),
    "bindings": ("pybind11/",),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(<(?P<outside>[^>]+)>|"(?P<own>[^"]+)")', re.MULTILINE)
SUFFIXES = (".cc", ".h", ".cu", ".cuh")


def find_violations(csrc: Path = CSRC) -> Iterator[str]:
    """Yield a line for each include that is not allowed, with its place and what the folder may include."""
    for path in sorted(path for path in csrc.rglob("*") if path.suffix in SUFFIXES):
        folder, text = str(path.parent.relative_to(csrc)), path.read_text()
        if folder not in FOLDERS:
            yield f"{path}: FOLDERS in {Path(__file__).name} does not name this folder"
            continue
        for found in INCLUDE.finditer(text):
            if not _is_allowed(found, path, folder):
                line = text.count("\n", 0, found.start(1)) + 1
                others = ", ".join([folder, *FOLDERS[folder].split(), *OUTSIDE[folder.split("/")[0]]])
                yield f"{path}:{line}: {found[1]} is not of {others} or the C++ library"


def _is_allowed(include: re.Match[str], path: Path, folder: str) -> bool:
    if include["outside"]:
        return bool(re.fullmatch(r"\w+", include["outside"])) or include["outside"].startswith(
            OUTSIDE[folder.split("/")[0]]
        )
    own = Path(include["own"])
    if own.parent == Path("."):  # kernels are compiled without folders
        return folder == "cuda" and (path.parent / own).is_file()
    return str(own.parent) in (folder, *FOLDERS[folder].split())


if __name__ == "__main__":
    violations = list(find_violations())
    print("\n".join(violations), end="\n" if violations else "")
    sys.exit(bool(violations))
