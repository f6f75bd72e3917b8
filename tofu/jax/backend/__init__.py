"""Plans of JAX steps as one program that every worker runs, under `jax.shard_map`, with collectives of its own."""
