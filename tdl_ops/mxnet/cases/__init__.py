"""What every description is verified with: one file for each family, by the same name, with its `CASES`.

A new operator is one description in `tdl_ops/mxnet` and one case here.
"""
