"""A small handwritten program: each of two workers has half of x, fetches all of it, and computes y."""

from tests.shared.programs import ProgramWriter
from tofu.graph import Graph, Operator, Phase, Tensor, TensorKind
from tofu.program import NodeKind, OutputShards, Program

GRAPH = Graph(
    (
        Tensor("x", (8, 3), "float32", 4, TensorKind.INPUT),
        Tensor("y", (8, 3), "float32", 4, TensorKind.INTERMEDIATE),
        Tensor("z", (8,), "float64", 8, TensorKind.INPUT),
    ),
    (Operator("square", "mul", {}, (0, 0), (1,), Phase.FORWARD),),
    (1,),
)


def list_nodes():
    halves = [[(0, 0), (4, 3), [(0, (0, 0))]], [(4, 0), (4, 3), [(1, (0, 0))]]]
    return [
        [NodeKind.VARIABLE, 0, 0, 0, [(4, 3)], [], [], 0.0],
        [NodeKind.VARIABLE, 0, 1, 0, [(4, 3)], [], [], 0.0, [(4, 0)]],
        *([NodeKind.FETCH, 0, w, 0, [(8, 3)], [(0, 0), (1, 0)], [list(half) for half in halves], 0.0] for w in (0, 1)),
        *([NodeKind.OPERATOR, 0, w, 0, [(8, 3)], [(2 + w, 0), (2 + w, 0)], [], 0.0] for w in (0, 1)),
    ]


def encode(nodes, outputs=((4, 0), (5, 0)), transit=((2, 0), (3, 0))):
    """Return the program of these nodes; its one result is y, replicated on both workers."""
    writer = ProgramWriter(2)
    for node in nodes:
        writer.add(*node)
    writer.outputs, writer.transit = list(outputs), list(transit)
    return Program(writer.encode(), GRAPH, (OutputShards(1, (-1,)),), 1, 2, (Phase.FORWARD,))
