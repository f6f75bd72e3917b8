"""What the verification of any engine's descriptions is made of: numbers to draw, parts to put together, cuts to try, reports to print.

It knows no framework: an engine gives the kernels that it is about (`tofu.verification.kernel`).
"""
