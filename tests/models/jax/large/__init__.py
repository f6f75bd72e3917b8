"""Training steps of large models in plain JAX, as people write them, from shapes alone.

Weights are bf16. The optimizer keeps a float32 master copy and two moments.
"""
