"""Tests of the JAX engine. Where JAX is not installed, all of them are skipped."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
pytest.importorskip("jax", reason="JAX is not installed: pip install tofu[jax]")
