"""Runs partitions: shards on devices, executors, and replacements of MXNet's symbol and module."""
