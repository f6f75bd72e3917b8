"""Random graphs of all operators at a random number of workers: the default plan, a random one, and one of another kind."""

from __future__ import annotations

import random

import mxnet as mx
import numpy as np
import pytest
from operator_graphs import STEPS, bind, finish, random_graph, run, run_alone
from random_models import Growth
from training import check_graph, random_plan

import tofu

TOLERANCE = 1e-10
CANCELLED = 1e-3
"""Below this share of a graph's largest gradient, another one is held against that share: terms may cancel."""
OTHERS: tuple[dict[str, str], ...] = (
    {"memory_limit": "1GB"},
    {"algorithm": "recursive"},
    {"algorithm": "data-parallel"},
)


@pytest.mark.parametrize("seed", range(24))
def test_random_graph(seed):
    check(random_graph(seed), random.Random(seed).randint(2, 8), seed)


def test_a_state_is_made_where_nobody_reads_the_output():
    """Nobody reads more of it than its shape, but the gradient by what it was computed of is asked for."""
    grow = Growth(0)
    data = grow.parameter(6, 4)
    turned = mx.sym.SwapAxis(data, dim1=0, dim2=1)
    check(finish(grow, mx.sym.Group([mx.sym.zeros_like(turned), mx.sym.sin(data)]), 0), 4, 0)


def check(graph, workers, seed):
    """Under every plan the same numbers as on one device, and the bytes that were planned."""
    expected = run_alone(graph)
    default = check_partitioned(graph, expected, tofu.partition(graph.symbol, workers))
    check_partitioned(graph, expected, tofu.partition(graph.symbol, workers, plan=random_plan(default, seed)))
    check_partitioned(graph, expected, tofu.partition(graph.symbol, workers, **OTHERS[seed % len(OTHERS)]))


def check_partitioned(graph, expected, symbol):
    executor = bind(graph, symbol, graph.requests)
    partition = executor.sharded.partition
    check_graph(partition)
    found, moved = run(graph, executor)
    assert moved == [partition.plan.communication_bytes] * STEPS
    assert found.keys() == expected.keys()
    gradients = [size(value) for name, value in expected.items() if name.startswith("gradient")]
    for name, value in expected.items():
        least = CANCELLED * max(1.0, *gradients) if name.startswith("gradient") else 0.0
        assert difference(found[name], value) <= TOLERANCE * max(size(value), least), name
    return partition


def size(value):
    """The largest magnitude of the numbers that are finite."""
    return np.abs(value[np.isfinite(value)]).max(initial=0.0)


def difference(found, expected):
    """The largest one; none where both are infinite or no numbers, as random operators may have it."""
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    return np.abs(found - expected)[~same].max(initial=0.0)
