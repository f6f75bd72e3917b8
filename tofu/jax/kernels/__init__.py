"""Kernels that users bring: Pallas kernels, cuDNN's attention, and functions that users describe."""
