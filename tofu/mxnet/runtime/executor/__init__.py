"""Execution graphs bound to devices, and the executors that run them."""
