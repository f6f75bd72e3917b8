"""What a training step needs on one device and on every worker, from MXNet's own planner."""
