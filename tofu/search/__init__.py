"""The search: from strategies to choices, with the native core (section 5)."""

from tofu.search.choices import Choices
from tofu.search.problem import Problem, pose_problem
from tofu.search.rounds import factorize
from tofu.search.strategies import find_strategies

__all__ = ["Choices", "Problem", "factorize", "find_strategies", "pose_problem"]
