from __future__ import annotations

import site
from pathlib import Path
from types import SimpleNamespace

import mxnet as mx

from tests.shared.definitions import execute_definitions

MAKERS = ("mx.sym.", "mx.symbol.", "namedtuple")


def load_definitions(path: Path) -> SimpleNamespace:
    """Return the definitions of a file. Missing packages and all other statements are skipped."""
    site.addsitedir(str(path.parent))
    site.addsitedir(str(path.parent.parent))
    names = {"__name__": path.stem, "__file__": str(path), "mx": mx}
    execute_definitions(path.read_text(), path, names, MAKERS)
    return SimpleNamespace(**names)
