"""Verify descriptions of JAX's primitives and their strategies against the primitives, in float64 on small inputs."""
