"""Tofu's plans of JAX steps beside those that people make by hand: `python -m benchmarks.jax_compare`."""
