"""Convert a model (an MXNet symbol) to Tofu's graph of a training step. Refuse models that cannot be split."""
