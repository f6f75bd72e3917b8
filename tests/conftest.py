"""Shared by all tests: quiet, reproducible numerics."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the suite runs a process per core

import tofu  # noqa: F401  makes MXNet importable
