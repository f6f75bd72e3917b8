"""Verify descriptions of operators: compare their numbers and splits with the framework's own kernels.

This package imports no framework. Engines pass their kernels to it (`tofu.verification.kernel`).
"""
