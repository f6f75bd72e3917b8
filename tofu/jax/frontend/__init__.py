"""Turn a training step into a graph of operators and tensors."""
