"""Two plans that people make by hand, for any graph: data parallelism, and Megatron-LM's plan for Transformers.

Each plan splits a few tensors and follows these splits through the operators (`tofu.search.propagation`). Nearly
everything else is replicated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tofu.analysis.access import Combine
from tofu.errors import InfeasibleError
from tofu.graph import Graph, Phase, TensorKind
from tofu.search.choices import REPLICATED, FixedChoices
from tofu.search.hints import resolve_hints
from tofu.search.problem import Problem
from tofu.search.propagation import Propagated, can_split_along, choose_axis, propagate, split_outputs
from tofu.search.solve import Effort, Solution, complete

Readers = Mapping[int, Sequence[int]]


def plan_data_parallel(problem: Problem, hints: Mapping[str, Any], effort: Effort) -> Solution:
    """Split the batch over all workers, replicate the parameters, and sum the parameters' gradients on all workers.

    The batch is dimension 0 of every input, or dimension 1 if a loop reads the input step by step. `hints` may name
    another dimension. Raises InfeasibleError if no input has a sample for each worker.
    """
    workers = prod(problem.factors)
    inputs = {t: tensor for t, tensor in enumerate(problem.graph.tensors) if tensor.kind is TensorKind.INPUT}
    given = {t: hints.get(tensor.name, _find_batch_dimension(problem, t)) for t, tensor in inputs.items()}
    written = problem.graph.written_in_place  # no samples: a fixed gamma, for example
    batch = {
        t: d
        for t, d in given.items()
        if isinstance(d, int) and d < len(inputs[t].shape) and inputs[t].shape[d] >= workers and t not in written
    }
    if not batch:
        shapes = ", ".join(f"{tensor.name}: {tensor.shape}" for tensor in inputs.values())
        raise InfeasibleError(
            f"Data parallelism over {workers} workers splits dimension 0 of the inputs, and each is shorter ({shapes}). "
            "Use fewer workers, a larger batch, or hints= that name the batch dimension of an input."
        )
    propagated = propagate(problem, batch, guessed=[t for t in batch if inputs[t].name not in hints])
    return _complete(problem, propagated, hints, *_find_sums(problem, propagated))


def _find_batch_dimension(problem: Problem, tensor: int) -> int:
    readers = [
        (problem.accesses[o], slot)
        for o, operator in enumerate(problem.graph.operators)
        for slot, t in enumerate(operator.inputs)
        if t == tensor
    ]
    for dimension, extent in enumerate(problem.graph.tensors[tensor].shape):
        if extent == 1 or not readers:
            break
        if any(
            can_split_along(access, a, 1) for access, n in readers for a, _ in access.inputs[n].rows[dimension].terms
        ):
            return dimension
    return 0


def plan_megatron(problem: Problem, hints: Mapping[str, Any], effort: Effort) -> Solution:
    """Split matrix products in pairs, as Megatron-LM does for Transformers.

    The first weight of a pair is split by columns, and the second by rows. A Transformer has two kinds of pairs:
    - the products for query, key and value, then the output product of the attention, split by heads, and
    - the two products of each feed-forward block.

    Lookup tables, and products at the end of the model, are split by columns. Everything else is replicated. Raises
    InfeasibleError if a product belongs to no pair, or if there are no pairs.
    """
    pairs = _find_pairs(problem)
    propagated = propagate(problem, {**pairs.weights, **pairs.tables}, pairs.lookups)
    results = {t for operator in pairs.behind for t in problem.graph.operators[operator].outputs}
    return _complete(problem, propagated, hints, pairs.behind, results)


def _complete(
    problem: Problem,
    propagated: Propagated,
    hints: Mapping[str, Any],
    operators: Collection[int],
    tensors: Collection[int],
) -> Solution:
    # Everything that neither `propagated` nor `hints` split is replicated, except that a search splits `operators` and
    # `tensors`.
    graph, rounds = problem.graph, len(problem.factors)
    roots = [int(problem.native.choice_root(o)) for o in range(len(graph.operators))]
    drawing = {root for root, access in zip(roots, problem.accesses, strict=True) if access.is_random}
    native, accesses = problem.native, problem.accesses
    fixed_operators = {
        o: [propagated.operators.get(o, REPLICATED)] * rounds
        for o, root in enumerate(roots)
        if (
            _can_split(problem, accesses[o].extents, propagated.operators[o], native.uneven_axes(o))
            if o in propagated.operators
            else not (o in operators or root in drawing)
        )
    }
    fixed_tensors = {
        t: [propagated.tensors.get(t, REPLICATED)] * rounds
        for t, tensor in enumerate(graph.tensors)
        if (
            _can_split(problem, tensor.shape, propagated.tensors[t], native.uneven_dimensions(t))
            if t in propagated.tensors
            else not (t in tensors or tensor.is_inner or tensor.kind is TensorKind.HEAD_GRADIENT)
        )
    }
    given = resolve_hints(problem, hints)
    return Solution(complete(problem, FixedChoices(fixed_operators | given.operators, fixed_tensors | given.tensors)))


def _can_split(problem: Problem, extents: Sequence[int], choice: int, uneven: Collection[int]) -> bool:
    return not problem.rules.splits_equally or choice in uneven or extents[choice] % prod(problem.factors) == 0


def _find_sums(problem: Problem, propagated: Propagated) -> tuple[set[int], set[int]]:
    graph = problem.graph
    sums: set[int] = set()
    partial: set[int] = set()  # results that are summed over the batch
    has_phases = any(operator.phase is Phase.BACKWARD for operator in graph.operators)
    for position, operator in enumerate(graph.operators):
        if has_phases and operator.phase is not Phase.BACKWARD:
            continue
        if position not in propagated.operators and partial.issuperset(operator.inputs):
            sums.add(position)
        if position in propagated.operators or position in sums:
            partial.update(t for t in operator.outputs if t not in propagated.tensors)
    return sums, partial.difference(graph.gradients.values())


@dataclass(frozen=True)
class _Product:
    """A product `x @ w` with a weight `w`."""

    operator: int
    weight: int
    column_axis: int
    row_axis: int
    column_dimension: int
    row_dimension: int


@dataclass(frozen=True)
class _Pairs:
    weights: Mapping[int, int]
    tables: Mapping[int, int]
    lookups: Collection[int]
    behind: Collection[int]


def _find_pairs(problem: Problem) -> _Pairs:
    products, readers = _find_products(problem), _list_forward_readers(problem.graph)
    split: dict[int, int] = {}  # forward tensors inside a pair
    weights: dict[int, int] = {}
    stops: dict[int, int] = {}  # product without a pair -> the operator that ends its split
    for product in products.values():
        if choose_axis(problem, product.operator, split) == product.row_axis:
            weights[product.weight] = product.row_dimension
            continue
        reached, stop = _reach_rows(problem, product, products, readers)
        weights[product.weight] = product.column_dimension
        split |= reached
        if stop is not None:
            stops[product.operator] = stop
    behind = _find_behind(problem.graph, stops, readers)
    if not split or not behind.isdisjoint(products):
        named = problem.graph.operators
        raise InfeasibleError(
            f"Megatron's plan over {prod(problem.factors)} workers needs every product with a weight, except the last ones, in a pair: "
            "the columns of one lead to the rows of the next, as in a Transformer whose attention runs over (head, batch)."
            + "; ".join(
                f" The columns of {named[o].full_name} end at {named[stop].full_name}"
                for o, stop in list(stops.items())[:4]
            )
            + ("." if stops else "")
            + " Use another algorithm for this model."
        )
    tables, lookups = _find_lookup_tables(problem, set(weights))
    return _Pairs(weights, tables, lookups, behind)


def _list_forward_readers(graph: Graph) -> Readers:
    readers: dict[int, list[int]] = defaultdict(list)
    for position, operator in enumerate(graph.operators):
        if operator.phase is Phase.FORWARD:
            for tensor in dict.fromkeys(operator.inputs):
                readers[tensor].append(position)
    return readers


def _find_products(problem: Problem) -> dict[int, _Product]:
    found = {}
    for position, weight, rows in _find_matrices(problem):
        (written, *others) = problem.accesses[position].outputs
        axes = [(a, d) for d, row in enumerate(rows) for a, _ in row.terms]
        columns = [(a, d) for a, d in axes if written.combine[a] is Combine.CONCAT]
        shared = _axes_of_others(problem, position, weight)
        summed = [(a, d) for a, d in axes if written.combine[a] is Combine.REDUCE and a in shared]
        if not others and len(columns) == 1 and summed:
            (column, c), (row_axis, r) = columns[0], summed[0]
            found[position] = _Product(position, weight, column, row_axis, c, r)
    return found


def _axes_of_others(problem: Problem, operator: int, tensor: int) -> set[int]:
    reads = zip(problem.graph.operators[operator].inputs, problem.accesses[operator].inputs, strict=True)
    return {axis for t, read in reads if t != tensor for row in read.rows for axis, _ in row.terms}


def _find_lookup_tables(problem: Problem, products: Collection[int]) -> tuple[dict[int, int], set[int]]:
    tables, lookups = {}, set()
    for position, weight, rows in _find_matrices(problem):
        combine = problem.accesses[position].outputs[0].combine
        dimensions = [d for d, row in enumerate(rows) if any(combine[axis] is Combine.CONCAT for axis, _ in row.terms)]
        if weight not in products and len(dimensions) == 1:
            tables[weight] = dimensions[0]
            lookups.add(position)
    return tables, lookups


def _find_matrices(problem: Problem) -> list[tuple[int, int, Any]]:
    graph, workers = problem.graph, prod(problem.factors)
    return [
        (position, t, read.rows)
        for position, operator in enumerate(graph.operators)
        for t, read in zip(operator.inputs, problem.accesses[position].inputs, strict=True)
        if operator.phase is Phase.FORWARD
        and graph.tensors[t].kind is TensorKind.PARAMETER
        and len(graph.tensors[t].shape) == 2
        and min(graph.tensors[t].shape) >= workers
    ]


def _reach_rows(
    problem: Problem, product: _Product, products: Mapping[int, _Product], readers: Readers
) -> tuple[dict[int, int], int | None]:
    reached = split_outputs(problem, product.operator, product.column_axis)
    waiting = list(reached)
    while waiting:
        tensor = waiting.pop()
        if tensor not in readers:
            return {}, product.operator
        for reader in readers[tensor]:
            axis = choose_axis(problem, reader, reached)
            if reader in products and axis == products[reader].row_axis:
                continue
            outputs = {} if axis is None or reader in products else split_outputs(problem, reader, axis)
            if any(t not in outputs for t in problem.graph.operators[reader].outputs):
                return {}, reader
            waiting += [t for t in outputs if t not in reached]
            reached |= outputs
    return reached, None


def _find_behind(graph: Graph, operators: Collection[int], readers: Readers) -> set[int]:
    behind: set[int] = set()
    waiting = [t for o in operators for t in graph.operators[o].outputs]
    while waiting:
        for reader in readers.get(waiting.pop(), ()):
            if reader not in behind:
                behind.add(reader)
                waiting += graph.operators[reader].outputs
    return behind | {o for o, operator in enumerate(graph.operators) if operator.forward in behind}
