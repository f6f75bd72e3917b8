"""Lowerings: rules that replace an operator by several smaller operators, called *parts* (decision 17).

The kernels of the parts can often be split along an important axis, although the operator's own kernel cannot.
"""

from tofu.lowering.expansion import lower
from tofu.lowering.parts import LowerableOperators, Lowering, Lowerings, Parts, find_lowering
from tofu.lowering.restoration import prepare_inference, restore_whole_operators
