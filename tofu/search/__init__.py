"""The search for a plan, given the axes along which each operator can be split (section 5).

There is one *round* for each prime factor of the number of workers. In each round, the native core in csrc/core chooses
an axis for each operator, its *choice*, and a dimension for each tensor, its *layout*.
"""

from tofu.search.choices import Choices
from tofu.search.problem import Problem, pose_problem
from tofu.search.rounds import factorize
from tofu.search.strategies import find_strategies

__all__ = ["Choices", "Problem", "factorize", "find_strategies", "pose_problem"]
