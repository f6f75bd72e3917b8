"""The operator descriptions: a folder for each engine, a file for each family of operators."""

import tofu  # noqa: F401  finds this package's modules of version 0.1 under their old names
