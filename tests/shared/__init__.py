"""Tools shared by tests, campaigns and benchmarks."""

import tofu  # noqa: F401  before MXNet
