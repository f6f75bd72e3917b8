"""Set up the tests of the JAX engine. Without JAX, only `test_installed.py` is collected, and then skipped."""

import os
from importlib.util import find_spec

from tests.campaigns.jax_equality import COMPILED_FAST

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Without LLVM's costly passes, most tests take half the time. XLA's passes stay the same, and so do the bytes transferred.
os.environ.setdefault("XLA_FLAGS", f"--xla_force_host_platform_device_count=8 {COMPILED_FAST}")
collect_ignore_glob = [] if find_spec("jax") else ["test_[!i]*.py", "kernels/*"]
