"""Planning options of MXNet models, in addition to those of all engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tofu.errors import PlanError
from tofu.planning.settings import OPTIONS, Option, Settings
from tofu.validation import show

UNROLL = ("never", "cheaper", "always")


def _read_unroll(when: Any) -> str:
    if when not in UNROLL:
        raise PlanError(f"unroll= must be one of {', '.join(map(repr, UNROLL))}, not {show(when)}.")
    return str(when)


@dataclass(frozen=True)
class MXNetSettings(Settings):
    """Options of a partition.

    `unroll` is "never", "cheaper" or "always": when a fused recurrent operator is planned as the cells that it
    computes.
    """

    unroll: str = "never"


MXNET_OPTIONS: Mapping[str, Option] = {**OPTIONS, "unroll": Option(_read_unroll)}
"""Options of all engines, and MXNet's own."""


def find_unroll(settings: Settings) -> str:
    """Return when recurrent operators are planned as their cells, by default never."""
    return settings.unroll if isinstance(settings, MXNetSettings) else "never"
