"""Compare a model's results on several workers with its results on one device.

The functions accept a model as a symbol, partitioned or not.
"""
