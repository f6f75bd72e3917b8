"""From strategies to a plan: the native search over coarse groups (stages 3 to 5 of the pipeline)."""

from tofu.search.choices import Choices
from tofu.search.problem import Problem, pose_problem
from tofu.search.rounds import factorize
from tofu.search.strategies import find_strategies

__all__ = ["Choices", "Problem", "factorize", "find_strategies", "pose_problem"]
