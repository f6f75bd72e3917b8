"""Run plans of JAX steps as one program under `jax.shard_map`, with explicit collectives."""
