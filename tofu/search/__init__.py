"""The search for a plan, given the axes along which each operator can be split (section 5).

The number of workers is a product of prime factors. The search splits in *rounds*, one for each factor. In each round it
*chooses* an axis for each operator, and a dimension for each tensor: the tensor's *layout*. It may also replicate them.
The native core in csrc/core does the work.
"""

from tofu.search.choices import Choices
from tofu.search.problem import Problem, pose_problem
from tofu.search.rounds import factorize
from tofu.search.strategies import find_strategies

__all__ = ["Choices", "Problem", "factorize", "find_strategies", "pose_problem"]
