"""Tofu: trains a model that was written for one device on several."""

from __future__ import annotations

from . import _compat as _compat
