"""Read an MXNet symbol into Tofu's graph of a training step. Refuse models that cannot be split."""
