"""Several machines: gradients are exchanged between them, around a model partitioned within each."""
