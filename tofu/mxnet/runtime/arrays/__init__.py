"""Tensors in shards: a tensor's shards on the workers' devices, arrays made of them, and the whole tensor at the edges."""
