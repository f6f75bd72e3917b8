"""Faults by kind, for `python -m benchmarks.faults`."""
