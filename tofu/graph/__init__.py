"""The semantic graph: all operators and tensors of a training step, as one frozen value for all frameworks."""

from tofu.graph.layers import (
    choose_main_operator,
    find_layers,
    find_operator,
    find_phases,
    find_similar_operators,
    is_backward,
    list_scopes,
    name_layers,
)
from tofu.graph.semantic import Carry, Graph, Operator, Phase, SourceLines, Tensor, TensorKind, make_label
