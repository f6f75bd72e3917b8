"""Partitioned symbols: arguments of the user, MXNet's interface over several devices, and files."""
