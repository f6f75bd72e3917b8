"""Compare a model's results on several workers with its results on one device."""
