"""Predict how many bytes each kernel accesses when XLA fuses operators, for simulations."""

from __future__ import annotations

from math import prod

from tofu.jax.backend.fusion import Operation, fuse
from tofu.jax.backend.xla_operations import ALIASES
from tofu.jax.frontend.equations import ValueType
from tofu.program import Entry, NodeKind, Program

FETCH = "fetch"


def find_kernel_bytes(program: Program) -> dict[int, int]:
    """Return the bytes that a worker's kernel accesses in one run, by the operator that it computes.

    Operators that are fused into others have no kernel. The first worker stands for all, because shards have equal
    shapes. Fetched values, and values that a loop reads from outside, are in memory.
    """
    graph, nodes = program.graph, program.nodes
    first_workers_nodes = [number for number, node in enumerate(nodes) if node.worker == 0]
    values: dict[Entry, int] = {}
    types: list[ValueType] = []  # fusion needs the shapes only
    sizes: list[int] = []
    times: list[int] = []
    operations: list[Operation] = []
    operator_of: dict[int, int] = {}  # value -> its operator
    in_memory: set[int] = set()

    def add(entry: Entry, tensor: int) -> int:
        values[entry] = len(types)
        shape = nodes[entry.node].shapes[entry.output]
        types.append(ValueType(shape, None))
        sizes.append(prod(shape) * graph.tensors[tensor].item_bytes)
        times.append(graph.tensors[tensor].times)
        return values[entry]

    for number in first_workers_nodes:
        node = nodes[number]
        reads = tuple(dict.fromkeys(values[entry] for entry in node.inputs if entry in values))
        if node.kind is NodeKind.VARIABLE:
            add(Entry(number, 0), node.id)
        elif node.kind is NodeKind.FETCH:
            in_memory.update(reads)
            operations.append(Operation(FETCH, reads, (add(Entry(number, 0), node.id),)))
        elif (name := graph.operators[node.id].op) in ALIASES:
            values.update((Entry(number, n), values[entry]) for n, entry in enumerate(node.inputs))
        else:
            makes = tuple(add(Entry(number, n), tensor) for n, tensor in enumerate(graph.operators[node.id].outputs))
            operator_of.update(dict.fromkeys(makes, node.id))
            operations.append(Operation(name, reads, makes))
            in_memory.update(value for value in reads if times[value] != times[makes[0]])
    in_memory.update(values[entry] for entries in program.results for entry in entries if entry in values)
    for node in nodes:
        if node.kind is NodeKind.FETCH and node.worker:
            in_memory.update(values[entry] for entry in node.inputs if entry in values)
    found: dict[int, int] = {}
    for operation in fuse(operations, in_memory, types):
        if operation.name != FETCH:
            found[operator_of[operation.makes[0]]] = sum(sizes[value] for value in (*operation.reads, *operation.makes))
    return found
