"""Predict how many bytes each kernel reads and writes after JAX's compiler fuses operators."""

from __future__ import annotations

from math import prod

from tofu.jax.backend.fusion import Operation, fuse
from tofu.jax.backend.xla_operations import ALIASES
from tofu.jax.frontend.value_types import ValueType
from tofu.program import Entry, NodeKind, Program

FETCH = "fetch"


def find_kernel_bytes(program: Program) -> dict[int, int]:
    """Return the bytes that each operator's kernel reads and writes, by operator number.

    An operator that is fused into other operators has no kernel.
    """
    graph, nodes = program.graph, program.nodes
    first_workers_nodes = [number for number, node in enumerate(nodes) if node.worker == 0]
    value_of: dict[Entry, int] = {}
    types: list[ValueType] = []  # fusion needs the shapes only
    sizes: list[int] = []
    times: list[int] = []
    operations: list[Operation] = []
    operator_of: dict[int, int] = {}  # value -> its operator
    stored_values: set[int] = set()

    def add(entry: Entry, tensor: int) -> int:
        value_of[entry] = len(types)
        shape = nodes[entry.node].shapes[entry.output]
        types.append(ValueType(shape, None))
        sizes.append(prod(shape) * graph.tensors[tensor].item_bytes)
        times.append(graph.tensors[tensor].times)
        return value_of[entry]

    for number in first_workers_nodes:
        node = nodes[number]
        reads = tuple(dict.fromkeys(value_of[entry] for entry in node.inputs if entry in value_of))
        if node.kind is NodeKind.VARIABLE:
            add(Entry(number, 0), node.id)
        elif node.kind is NodeKind.FETCH:
            stored_values.update(reads)
            operations.append(Operation(FETCH, reads, (add(Entry(number, 0), node.id),)))
        elif (name := graph.operators[node.id].op) in ALIASES:
            value_of.update((Entry(number, n), value_of[entry]) for n, entry in enumerate(node.inputs))
        else:
            makes = tuple(add(Entry(number, n), tensor) for n, tensor in enumerate(graph.operators[node.id].outputs))
            operator_of.update(dict.fromkeys(makes, node.id))
            operations.append(Operation(name, reads, makes))
            stored_values.update(value for value in reads if times[value] != times[makes[0]])
    results = (entry for entries in program.results for entry in entries)
    stored_values.update(value_of[entry] for entry in results if entry in value_of)
    for node in nodes:
        if node.kind is NodeKind.FETCH and node.worker:
            stored_values.update(value_of[entry] for entry in node.inputs if entry in value_of)
    kernel_bytes: dict[int, int] = {}
    for operation in fuse(operations, stored_values, types):
        if operation.name != FETCH:
            accessed = (*operation.reads, *operation.makes)
            kernel_bytes[operator_of[operation.makes[0]]] = sum(sizes[value] for value in accessed)
    return kernel_bytes
