"""Build the program that all workers run under `jax.shard_map`, with explicit collectives."""
