"""Errors that are planted in the program that JAX runs are found: wrong transfers by the check, wrong counts in XLA's text."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import tofu.jax
from tofu.errors import InternalError
from tofu.jax.backend import collectives, spmd
from tofu.jax.backend.collectives import Workers
from tofu.jax.compare.traffic import count_traffic
from tofu.program import check_program
from tofu.program.collectives import AllGather, AllReduce, ReduceScatter

X, W = (np.random.default_rng(seed).normal(size=(512, 512)).astype(np.float32) for seed in range(2))


def plan():
    hints = {"dot_general": ("k0", "m0"), "mul": (1, 0)}
    return tofu.jax.partition(lambda x, w: (x @ w) * 2.0, 4, (X, W), hints=hints)


def test_nothing_is_found_where_nothing_is_planted():
    made = plan()
    np.testing.assert_allclose(made(X, W), X @ W * 2, rtol=1e-3, atol=1e-3)
    kinds = {type(one) for chain in made.partition.training.collectives.values() for one in chain}
    assert {ReduceScatter, AllGather} & kinds


@pytest.mark.parametrize("kind", [ReduceScatter, AllGather])
def test_a_collective_that_is_left_out(monkeypatch, kind):
    recognize = spmd.recognize
    monkeypatch.setattr(
        spmd, "recognize", lambda *given: tuple(one for one in recognize(*given) if not isinstance(one, kind))
    )
    with pytest.raises(InternalError, match="are not its transfer"):
        plan()(X, W)


def test_a_collective_along_another_axis(monkeypatch):
    recognize = spmd.recognize

    def turn(*given):
        return tuple(one._replace(axis=1 - one.axis) if hasattr(one, "axis") else one for one in recognize(*given))

    monkeypatch.setattr(spmd, "recognize", turn)
    with pytest.raises(InternalError, match="are not its transfer"):
        plan()(X, W)


def test_pieces_from_other_workers():
    """Before anything is built for JAX: the rules are those of every program."""
    program = plan().partition.training._written
    tables = program.tables
    swapped = tables.source_read.copy()  # two workers read each other's piece
    first, second = np.flatnonzero(tables.source_node == tables.source_node[0])[:2]
    swapped[[first, second]] = swapped[[second, first]]
    spoilt = replace(program)
    spoilt.__dict__["tables"] = replace(tables, source_read=swapped)
    check_program(program)
    with pytest.raises(InternalError, match="elements from another place of the tensor"):
        check_program(spoilt)


def test_collectives_that_move_more_than_the_plan_counts(monkeypatch):
    """The program is right, and what JAX makes of it is not: XLA's own text has more bytes."""
    made = plan()
    counted = made.plan.communication_bytes
    assert count_traffic(made.lower(X, W).compile().as_text(), 4).total == counted
    scatter = Workers._scatter

    def reduce_whole(workers, one, x):
        whole = workers._reduce(AllReduce((one.axis,), one.reducer), x)
        return workers._slice(one, whole) + 0 * jnp.sum(scatter(workers, one, x))

    monkeypatch.setitem(collectives.RULES, ReduceScatter, reduce_whole)
    assert count_traffic(plan().lower(X, W).compile().as_text(), 4).total > 1.02 * counted
