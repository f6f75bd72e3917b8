"""The models of MXNet's own examples, built by the examples' code."""
