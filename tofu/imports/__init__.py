"""What `import tofu` changes of importing others: MXNet becomes importable."""

REMEDY_OF_JAX = 'pip install ".[jax]" in Tofu\'s folder, or pip install "jax>=0.6.2,<0.13"'
