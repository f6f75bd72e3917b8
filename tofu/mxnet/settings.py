"""Planning options of MXNet models: those that JAX has as well, and `unroll`."""

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
    """Planning options that a user passed for an MXNet model.

    `unroll` ("never", "cheaper" or "always") determines if RNN operators are replaced by cells for single time steps.
    """

    unroll: str = "never"


MXNET_OPTIONS: Mapping[str, Option] = {**OPTIONS, "unroll": Option(_read_unroll)}
"""All planning options by name, with the functions that check and convert a user's value."""


def find_unroll(settings: Settings) -> str:
    """Return the option `unroll`, or "never" if the settings are not for MXNet."""
    return settings.unroll if isinstance(settings, MXNetSettings) else "never"
