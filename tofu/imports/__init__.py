"""Import MXNet, JAX and Tofu's native code. Errors explain what to install."""

REMEDY_OF_JAX = 'pip install ".[jax]" in Tofu\'s folder, or pip install "jax>=0.6.2,<0.13"'
