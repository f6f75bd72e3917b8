"""Compare JAX's primitives (basic operations) with their descriptions, in float64 on small inputs."""
