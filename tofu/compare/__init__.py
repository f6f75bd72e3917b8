"""Compare the results of two runs of a model, for example on several workers and on one device."""

from tofu.compare.numbers import Arrays, Difference, RunNumbers, compare_numbers, relative_error
