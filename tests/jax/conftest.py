"""Tests of the JAX engine. Where JAX is not installed (`pip install ".[jax]"`), none of them is collected."""

from __future__ import annotations

import importlib.util
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
collect_ignore_glob = [] if importlib.util.find_spec("jax") else ["test_*.py"]
