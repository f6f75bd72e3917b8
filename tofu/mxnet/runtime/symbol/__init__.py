"""Partitioned symbols: MXNet's interface of symbols over several devices, the user's arguments, and files."""
