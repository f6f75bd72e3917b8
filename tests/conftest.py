"""Shared by all tests: the helpers beside this file, and quiet, reproducible numerics."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the suite runs a process per core
sys.path.insert(0, str(Path(__file__).parent))

import tofu  # noqa: F401  makes MXNet importable
