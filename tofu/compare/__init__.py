"""How far two sets of numbers are apart, and how that is told."""

from tofu.compare.numbers import Arrays, Difference, Numbers, compare_numbers, relative_error

__all__ = ["Arrays", "Difference", "Numbers", "compare_numbers", "relative_error"]
