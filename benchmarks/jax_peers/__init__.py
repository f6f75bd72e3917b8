"""JAX steps, and the plans that people make of them by hand, for `benchmarks.jax_compare`."""
