"""Sharded replacements of MXNet's modules."""
