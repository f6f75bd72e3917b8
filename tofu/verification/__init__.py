"""Verification of descriptions: compare the numbers and the splits of a description with the framework's kernels.

This package knows no framework. An engine passes its kernels (`tofu.verification.kernel`).
"""
