"""Planning options of MXNet models: the common options, and `unroll`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from tofu.errors import PlanError
from tofu.planning.settings import OPTIONS, Option, Settings, read_choice

UNROLL = ("never", "cheaper", "always")


@dataclass(frozen=True)
class MXNetSettings(Settings):
    """Planning options for an MXNet model.

    `unroll` is "never", "cheaper" or "always": when to replace RNN operators by cells.
    """

    unroll: str = "never"


MXNET_OPTIONS: Mapping[str, Option] = {**OPTIONS, "unroll": Option(partial(read_choice, "unroll", UNROLL, PlanError))}
"""All planning options by name, with the functions that check and convert a user's value."""
