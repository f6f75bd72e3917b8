"""Descriptions of those of TensorFlow's operators that compute what no operator of MXNet and no primitive of JAX does, by families."""
