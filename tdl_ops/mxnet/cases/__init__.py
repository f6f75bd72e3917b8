"""Cases to verify the descriptions with: one file for each family, by the same name.

A new operator needs a description in `tdl_ops/mxnet` and a case here.
"""
