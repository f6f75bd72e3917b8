"""Executors, which run execution graphs that are bound to devices."""
