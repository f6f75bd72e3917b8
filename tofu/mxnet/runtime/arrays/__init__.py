"""Sharded tensors: the shards on the workers' devices, arrays over them, and whole tensors at the interface."""
