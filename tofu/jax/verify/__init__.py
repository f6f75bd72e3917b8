"""Compare the descriptions of JAX's primitives with the primitives, in float64 on small inputs."""
