"""Comparison of two sets of numbers."""

from tofu.compare.numbers import Arrays, Difference, RunNumbers, compare_numbers, relative_error

__all__ = ["Arrays", "Difference", "RunNumbers", "compare_numbers", "relative_error"]
