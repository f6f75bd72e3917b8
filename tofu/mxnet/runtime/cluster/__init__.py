"""Training on several machines: each partitions the model over its devices, and the machines exchange gradients."""
