"""Compare JAX's primitives with their descriptions, in float64 on small inputs."""
