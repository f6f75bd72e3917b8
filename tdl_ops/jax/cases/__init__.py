"""Cases to verify the descriptions with: one file for each family, by the same name.

A new primitive needs a description in `tdl_ops/jax` and a case here: a small function in whose equations, or in whose
gradient, it occurs.
"""
