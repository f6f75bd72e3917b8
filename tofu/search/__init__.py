"""The search for a plan (section 5): how to split each operator and each tensor over the workers.

There is one *round* for each prime factor of the number of workers. In each round, the search chooses an axis to split
for each operator (its *choice*), and a dimension for each tensor (its *layout*). The native code is in csrc/core.
"""

from tofu.search.choices import Choices
from tofu.search.problem import Problem, make_problem
from tofu.search.rounds import factorize
from tofu.search.strategies import find_strategies
