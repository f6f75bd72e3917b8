"""Source lines of descriptions, for error messages."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

_LANGUAGE = os.path.dirname(os.path.abspath(__file__))


@dataclass(frozen=True)
class Place:
    """A line of source code. It prints as `file:line`, relative to the working directory if possible."""

    file: str
    line: int

    def __str__(self) -> str:
        below = os.path.abspath(self.file).startswith(os.getcwd() + os.sep)
        return f"{os.path.relpath(self.file) if below else self.file}:{self.line}"


def find_place() -> Place:
    """Return the line of the description that called Tofu."""
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == _LANGUAGE:
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
