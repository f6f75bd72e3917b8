"""Compare a model's results on several workers with its results on one device.

The functions accept the model itself, its partitioned symbol, or any object with a symbol's methods.
"""
