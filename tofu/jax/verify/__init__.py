"""Verification: descriptions of JAX's primitives and their strategies against the primitives themselves, in float64 on small inputs."""
