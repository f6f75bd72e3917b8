"""Partitioned symbols: what users give, what a symbol is on several devices, and its files."""
