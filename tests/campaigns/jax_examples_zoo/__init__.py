"""Training steps of the examples of JAX's libraries, made by the examples' own code (`tests/campaigns/jax_equality.py`)."""
