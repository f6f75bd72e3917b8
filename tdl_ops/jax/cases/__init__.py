"""What every description is verified with: one file for each family, by the same name, with its `CASES`.

A new primitive is one description in `tdl_ops/jax` and one case here, a small function in whose equations, or in those of its gradient,
it occurs.
"""
