"""Imports of optional packages: `import tofu` makes MXNet importable."""

REMEDY_OF_JAX = 'pip install ".[jax]" in Tofu\'s folder, or pip install "jax>=0.6.2,<0.13"'
