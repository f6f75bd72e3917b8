"""What `import tofu` changes of importing others: MXNet becomes importable, modules of version 0.1 are found under their old names."""

REMEDY_OF_JAX = 'pip install ".[jax]" in Tofu\'s folder, or pip install "jax>=0.6.2,<0.13"'
