"""Tensors that are split over the workers' devices, and arrays through which users read and write them."""
