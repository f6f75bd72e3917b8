from __future__ import annotations

import ast
import site
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import mxnet as mx

from tests.shared.definitions import list_definitions

MAKERS = ("mx.sym.", "mx.symbol.", "namedtuple")


def load_definitions(path: Path) -> SimpleNamespace:
    """Return the definitions of a file. Missing packages and all other statements are skipped."""
    site.addsitedir(str(path.parent))
    site.addsitedir(str(path.parent.parent))
    names = {"__name__": path.stem, "__file__": str(path), "mx": mx}
    for statement in list_definitions(ast.parse(path.read_text()), MAKERS):
        with suppress(Exception):  # a name that a skipped statement defines
            exec(compile(ast.Module([statement], []), str(path), "exec"), names)
    return SimpleNamespace(**names)
