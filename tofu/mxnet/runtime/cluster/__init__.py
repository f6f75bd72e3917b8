"""Train on several machines. Each machine splits the model over its devices, and the machines exchange gradients."""
