"""Verify descriptions of operators: compare their numbers and splits with the framework's own kernels.

This package knows no framework. An engine passes its kernels (`tofu.verification.kernel`).
"""
