"""Programs of random graphs: emitting, decoding, and checks."""

from itertools import groupby
from math import prod

import numpy as np

from tofu import _core
from tofu.graph import Graph, Operator, Phase, Tensor, TensorKind
from tofu.program import NodeKind, OutputShards, Program, check_program


def read_program(spec, factors, code, requests):
    """Return the view of an encoded program; `requests` are (tensor, layout) pairs."""
    outputs = tuple(OutputShards(tensor, tuple(layout or ())) for tensor, layout in requests)
    return Program(code, make_graph(spec), outputs, len(outputs), prod(factors), tuple(Phase))


def make_graph(spec):
    produced = {written.tensor for operator in spec.operators for written in operator.written}
    kinds = [TensorKind.INTERMEDIATE if n in produced else TensorKind.PARAMETER for n in range(len(spec.tensors))]
    numbered = enumerate(zip(spec.tensors, kinds, strict=True))
    tensors = tuple(Tensor(f"t{n}", t.shape, "float32", t.item_bytes, kind) for n, (t, kind) in numbered)
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
    """Check that nodes follow their inputs, and that operators between two fetches run in order, worker by worker."""
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


ALL_PHASES = [0, 1, 2]


def emit_training(spec, factors, operators, tensors, kept=(), reread=()):
    """Emit a program that returns the graph's outputs, and every gradient in its weight's layout."""
    native = spec.native()
    arrays = (np.array(operators), np.array(tensors))
    requests = [(t, None) for t in dict.fromkeys(spec.outputs)]
    requests += [(o.reads[0].tensor, list(tensors[o.follows])) for o in spec.operators if o.follows >= 0]
    data = _core.emit(native, list(factors), *arrays, ALL_PHASES, requests, kept, reread)
    return native, data, requests, _core.evaluate(native, list(factors), *arrays, kept=kept, reread=reread)


def count_traffic(program):
    """Return an array [workers, workers] with the bytes that worker i reads from worker j."""
    tables = program.tables
    item_bytes = np.array([tensor.moved_item_bytes for tensor in program.graph.tensors])
    counts = tables.piece_extent.prod(axis=1)[tables.source_piece] * item_bytes[tables.node_id[tables.source_node]]
    traffic = np.zeros((program.workers, program.workers), np.int64)
    np.add.at(traffic, (tables.node_worker[tables.source_node], tables.entry_worker[tables.source_entry]), counts)
    return traffic


def check_plan(spec, factors, operators, tensors, seed, kept=(), reread=()):
    _, data, requests, cost = emit_training(spec, factors, operators, tensors, kept, reread)
    program = read_program(spec, factors, data, requests)
    check_program(program, cost.total_bytes)
    nodes, outputs = program.nodes, program.output_entries
    check_order(nodes)
    unread = outputs[len(requests) * program.workers :]
    read = [*outputs[: len(outputs) - len(unread)], *(entry for node in nodes for entry in node.inputs)]
    wanted = {node for node, _ in read}
    assert [i for i, _ in unread] == [
        i for i, n in enumerate(nodes) if i not in wanted and n.kind is not NodeKind.VARIABLE
    ]
    for i, output in unread:
        same = {n for n, node in enumerate(nodes) if (node.kind, node.id) == (NodeKind.OPERATOR, nodes[i].id)}
        read_of_others = {index for n, index in read if n in same}
        assert output in (read_of_others if nodes[i].kind is NodeKind.OPERATOR and read_of_others else {0})
    return nodes
