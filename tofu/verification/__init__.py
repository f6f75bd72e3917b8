"""Verification of an engine's descriptions: numbers to draw, parts to combine, cuts to try, reports to print.

It knows no framework. An engine passes its kernels (`tofu.verification.kernel`).
"""
