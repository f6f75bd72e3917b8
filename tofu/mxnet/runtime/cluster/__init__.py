"""Train on several machines."""
