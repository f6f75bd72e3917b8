"""Training steps of the examples of JAX's libraries, made by the examples' own code (`benchmarks/jax_examples.py`)."""
