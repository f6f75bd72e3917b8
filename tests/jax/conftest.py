"""Tests of the JAX engine. Where JAX is not installed they are not collected but for one, which says so as it is skipped."""

from __future__ import annotations

import os
from importlib.util import find_spec

from tests.campaigns.jax_equality import COMPILED_FAST

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Without LLVM's costly passes most tests take half the time. XLA's own passes, and so what moves, stay as they are.
os.environ.setdefault("XLA_FLAGS", f"--xla_force_host_platform_device_count=8 {COMPILED_FAST}")
collect_ignore_glob = [] if find_spec("jax") else ["test_[!i]*.py", "kernels/*", "differentiated/*"]
