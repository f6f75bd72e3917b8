"""The semantic graph: what a training step computes, as one frozen value that no framework owns (stage 2 of the pipeline)."""

from tofu.graph.semantic import Carry, Graph, Lines, Operator, Phase, Tensor, TensorKind, make_label

__all__ = ["Carry", "Graph", "Lines", "Operator", "Phase", "Tensor", "TensorKind", "make_label"]
