"""Verify the descriptions of JAX's primitives: compare each with its primitive, in float64 on small inputs."""
