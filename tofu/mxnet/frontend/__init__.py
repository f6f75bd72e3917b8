"""Functions that read an MXNet symbol into Tofu's graph of a training step, and refuse models that cannot be split."""
