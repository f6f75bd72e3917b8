"""Predict the memory of a training step, on one device and on every worker, by MXNet's own memory planner."""
