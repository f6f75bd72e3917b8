"""Define the cases that verify descriptions. Each file of descriptions has a file of cases with the same name.

A new primitive needs a description in `tdl_ops/jax` and a case here: a small function that contains the primitive, or
whose gradient contains it.
"""
