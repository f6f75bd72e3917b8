"""The semantic graph: a training step as one frozen value, independent of the framework."""

from tofu.graph.semantic import Carry, Graph, Lines, Operator, Phase, Tensor, TensorKind, make_label

__all__ = ["Carry", "Graph", "Lines", "Operator", "Phase", "Tensor", "TensorKind", "make_label"]
