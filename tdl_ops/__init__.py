"""The operator descriptions, one family per file. Importing the package registers them all.

A new operator is one description in one of these files and one case in tests/tdl_ops/cases.py.
"""

from tdl_ops import (
    activation,
    binary,
    broadcast,
    constant,
    convolution,
    dropout,
    layout,
    loss,
    matmul,
    optimizer,
    pooling,
    reduction,
    reshape,
    scalar,
    softmax,
    softmax_output,
    unary,
)

__all__ = [
    "activation",
    "binary",
    "broadcast",
    "constant",
    "convolution",
    "dropout",
    "layout",
    "loss",
    "matmul",
    "optimizer",
    "pooling",
    "reduction",
    "reshape",
    "scalar",
    "softmax",
    "softmax_output",
    "unary",
]
