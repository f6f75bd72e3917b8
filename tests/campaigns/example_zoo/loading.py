"""The definitions of a script, without what it does: MXNet's examples download data and train as they are imported."""

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
    """Functions and classes of a file, its constants, and the symbols that it makes at its top level.

    Its neighbours can be imported. What cannot be (a package that draws pictures, say) is left out, and so is what else it does.
    """
    site.addsitedir(str(path.parent))
    site.addsitedir(str(path.parent.parent))
    names = {"__name__": path.stem, "__file__": str(path), "mx": mx}
    for statement in list_definitions(ast.parse(path.read_text()), MAKERS):
        with suppress(Exception):  # a name that one of the others would have made
            exec(compile(ast.Module([statement], []), str(path), "exec"), names)
    return SimpleNamespace(**names)
