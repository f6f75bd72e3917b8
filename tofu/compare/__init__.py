"""Comparison of the results of two runs, such as on several workers and on one device."""

from tofu.compare.numbers import Arrays, Difference, RunNumbers, compare_numbers, relative_error

__all__ = ["Arrays", "Difference", "RunNumbers", "compare_numbers", "relative_error"]
