"""Write the kernel files and their headers into a C++ source, as texts for the extension module.

    python embed_sources.py OUTPUT.cc FILE...

NVRTC finds them by their file names.
"""

from __future__ import annotations

import sys
from pathlib import Path

DELIMITER = "tofu_source"


def embed(paths: list[Path]) -> str:
    """Return a definition of `tofu::cuda::KernelSources`: pairs of file name and text, sorted by name."""
    entries = [
        f'      {{"{path.name}", R"{DELIMITER}({path.read_text()}){DELIMITER}"}},'
        for path in sorted(paths, key=lambda path: path.name)
    ]
    return "\n".join(
        [
            '#include "cuda/compiler.h"',
            "",
            "const std::vector<std::pair<std::string, std::string>>& tofu::cuda::KernelSources() {",
            "  static const std::vector<std::pair<std::string, std::string>> sources = {",
            *entries,
            "  };",
            "  return sources;",
            "}",
            "",
        ]
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(embed([Path(path) for path in sys.argv[2:]]))
