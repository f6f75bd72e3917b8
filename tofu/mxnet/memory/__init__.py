"""Predict how much memory a training step needs, on one device and on every worker, by MXNet's memory planner."""
