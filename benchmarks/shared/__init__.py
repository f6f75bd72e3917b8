"""What tests and benchmarks both use. Benchmarks import nothing from tests."""

import tofu  # noqa: F401  before MXNet
