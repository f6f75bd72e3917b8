"""Tensors that are split over the workers' devices, and the arrays through which users read and write these tensors."""
