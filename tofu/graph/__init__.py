"""The semantic graph: a training step as one frozen value, independent of the framework."""

from tofu.graph.layers import choose_main_operator, find_layers, is_backward, list_members, name_layers
from tofu.graph.semantic import Carry, Graph, Operator, Phase, SourceLines, Tensor, TensorKind, make_label

__all__ = [
    "Carry",
    "Graph",
    "Operator",
    "Phase",
    "SourceLines",
    "Tensor",
    "TensorKind",
    "choose_main_operator",
    "find_layers",
    "is_backward",
    "list_members",
    "make_label",
    "name_layers",
]
