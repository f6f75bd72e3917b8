"""Kernels that users bring: Pallas kernels, cuDNN's attention, and described functions."""
