"""Programs of random graphs: decoding, and the order of their nodes."""

from itertools import groupby
from math import prod

from tofu.graph import Graph, Operator, Phase, Tensor, TensorKind
from tofu.program import NodeKind, OutputShards, Program


def read_program(spec, factors, code, requests):
    """Return the view of an encoded program; `requests` are (tensor, layout) pairs."""
    outputs = tuple(OutputShards(tensor, tuple(layout or ())) for tensor, layout in requests)
    return Program(code, make_graph(spec), outputs, len(outputs), prod(factors), tuple(Phase))


def make_graph(spec):
    produced = {written.tensor for operator in spec.operators for written in operator.written}
    tensors = tuple(
        Tensor(
            f"t{n}",
            tensor.shape,
            "float32",
            tensor.item_bytes,
            TensorKind.INTERMEDIATE if n in produced else TensorKind.PARAMETER,
        )
        for n, tensor in enumerate(spec.tensors)
    )
    operators = tuple(
        Operator(
            name=f"o{n}",
            op="any",
            attributes={},
            inputs=tuple(read.tensor for read in operator.reads),
            outputs=tuple(written.tensor for written in operator.written),
            phase=Phase(operator.phase),
        )
        for n, operator in enumerate(spec.operators)
    )
    return Graph(tensors, operators, tuple(spec.outputs))


def check_order(nodes):
    """Check that nodes follow their inputs, and operators run in order, worker by worker between two fetches of a phase."""
    for position, node in enumerate(nodes):
        assert all(n < position for n, _ in node.inputs)
    last = -1
    run_nodes = [node for node in nodes if node.kind is not NodeKind.VARIABLE]
    for (kind, _), run in groupby(run_nodes, lambda node: (node.kind, node.phase)):
        if kind is not NodeKind.OPERATOR:
            continue
        copies = [(node.worker, node.id) for node in run]
        assert copies == sorted(set(copies))
        assert all(operator >= last for _, operator in copies)
        last = max(operator for _, operator in copies)
