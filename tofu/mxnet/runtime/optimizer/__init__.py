"""MXNet's optimizers for weights that are split over workers."""
