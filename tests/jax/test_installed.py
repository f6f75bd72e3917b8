import pytest

jax = pytest.importorskip("jax", reason='JAX is not installed: pip install "tofu-partitioner[jax]"')


def test_the_version_is_supported():
    assert jax.__version_info__ >= (0, 6, 2)
