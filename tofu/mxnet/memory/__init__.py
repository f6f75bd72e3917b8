"""Memory of a training step on one device and on every worker, from MXNet's own planner."""
