"""Executors: objects that run a planned model on the workers' devices."""
