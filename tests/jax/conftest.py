"""Tests of the JAX engine. Where JAX is not installed they are not collected but for one, which says so as it is skipped."""

from __future__ import annotations

import os
from importlib.util import find_spec

os.environ.setdefault("JAX_PLATFORMS", "cpu")
collect_ignore_glob = [] if find_spec("jax") else ["test_[!i]*.py"]
