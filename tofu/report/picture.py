"""Create pictures with matplotlib, which is imported on first use."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tofu.errors import TofuError
from tofu.formatting import format_bytes
from tofu.sizes import UNITS


def new_figure(path: str | Path, width: float, height: float) -> Any:
    """Return an empty matplotlib Figure of `width` x `height` inches, which can be saved to `path`.

    Raises TofuError if matplotlib is missing, or does not know the ending of `path`.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise TofuError("A picture needs matplotlib: pip install matplotlib.") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    endings = [f".{name}" for name in sorted(figure.canvas.get_supported_filetypes())]
    if Path(path).suffix.lower() not in endings:
        raise TofuError(f"{path}: unknown picture format. Use one of {', '.join(endings)}.")
    return figure


def check_picture(path: str | Path) -> None:
    """Raise TofuError if a picture cannot be saved to `path`."""
    new_figure(path, 1, 1)


def choose_unit(counts: Iterable[float]) -> tuple[str, int]:
    """Choose a unit for a plot of numbers of bytes. Return its name, and its size in bytes.

    >>> choose_unit([3, 5000])
    ('KiB', 1024)
    """
    unit = format_bytes(max(counts, default=0)).split()[-1]
    return unit, UNITS[unit]
