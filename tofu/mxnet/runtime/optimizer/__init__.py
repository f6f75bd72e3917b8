"""MXNet's optimizers on shards."""
