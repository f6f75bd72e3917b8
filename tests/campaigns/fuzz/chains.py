"""Tensors with many readers, whose gradients are long chains of sums."""

from __future__ import annotations

from collections.abc import Callable

import mxnet as mx

from tests.campaigns.fuzz.sample import Growth

Reader = Callable[[Growth, mx.sym.Symbol, int, int], mx.sym.Symbol]
"""(model, weight, rows, columns) -> a tensor computed from the weight."""


def _dense(grow: Growth, weight: mx.sym.Symbol, rows: int, columns: int) -> mx.sym.Symbol:
    x = _read_or_make(grow, columns)
    return mx.sym.FullyConnected(x, weight, num_hidden=rows, no_bias=True, name=grow.name("fc"))


def _dot(grow: Growth, weight: mx.sym.Symbol, rows: int, columns: int) -> mx.sym.Symbol:
    turn = grow.rng.random() < 0.5
    return mx.sym.dot(_read_or_make(grow, columns if turn else rows), weight, transpose_b=turn, name=grow.name("dot"))


def _scaled(grow: Growth, weight: mx.sym.Symbol, rows: int, columns: int) -> mx.sym.Symbol:
    scale = grow.parameter(*grow.rng.choice(((rows, columns), (1, columns), (rows, 1))))
    return mx.sym.broadcast_mul(weight, scale, name=grow.name("scaled"))


def _taken(grow: Growth, weight: mx.sym.Symbol, rows: int, columns: int) -> mx.sym.Symbol:
    labels = grow.labels(rows, grow.rng.randint(1, 9))
    return mx.sym.Embedding(
        labels, weight, input_dim=rows, output_dim=columns, dtype="float64", name=grow.name("taken")
    )


def _plain(grow: Growth, weight: mx.sym.Symbol, rows: int, columns: int) -> mx.sym.Symbol:
    kinds = (mx.sym.clip, mx.sym.cumsum, mx.sym.reverse, mx.sym.mean, mx.sym.sum, mx.sym.negative, mx.sym.square)
    kind = grow.rng.choice(kinds)
    if kind is mx.sym.clip:
        return kind(weight, -0.7, 0.8)
    if kind in (mx.sym.cumsum, mx.sym.reverse):
        return kind(weight, axis=grow.rng.randrange(2))
    if kind in (mx.sym.mean, mx.sym.sum):
        return kind(weight, axis=grow.rng.randrange(2), keepdims=True)
    return kind(weight)


PRODUCTS: tuple[Reader, ...] = (_dense, _dense, _dot, _taken)
READERS: tuple[Reader, ...] = (*PRODUCTS, _scaled, _plain)


def _read_or_make(grow: Growth, columns: int) -> mx.sym.Symbol:
    there = grow.others(lambda shape: len(shape) == 2 and shape[1] == columns)
    if there and grow.rng.random() < 0.5:
        return grow.rng.choice(there[-2:] if grow.rng.random() < 0.7 else there)
    rows = grow.rng.choice((1, 2, 3, 5, 8, 9, 12))
    x = grow.data(rows, columns) if grow.rng.random() < 0.7 else grow.parameter(rows, columns)
    grow.add(x)
    return x


def grow_chain(grow: Growth) -> mx.sym.Symbol:
    """Return outputs of a graph in which 2 to 14 operators read the same tensor."""
    made: list[mx.sym.Symbol] = []
    for _ in range(grow.rng.choice((1, 1, 2))):
        rows, columns = grow.rng.choice((2, 3, 4, 8, 9, 12)), grow.rng.choice((1, 2, 3, 5, 8))
        if grow.rng.random() < 0.5:
            columns = rows
        weight = grow.parameter(rows, columns)
        if grow.rng.random() < 0.2:
            weight = mx.sym.tanh(weight)
        readers = grow.rng.choice(((_dense,), PRODUCTS, PRODUCTS, READERS))
        for _ in range(grow.rng.choice((2, 7, 8, 8, 9, 10, 12, 14))):
            one = grow.rng.choice(readers)(grow, weight, rows, columns)
            made.append(one)
            grow.add(one)
    return join(grow, made)


def join(grow: Growth, made: list[mx.sym.Symbol]) -> mx.sym.Symbol:
    if grow.rng.random() < 0.3:
        return mx.sym.Group(made)
    parts = 1 if grow.rng.random() < 0.7 else 2
    flat = [mx.sym.Reshape(tensor, shape=(-1,)) for tensor in made]
    outputs = []
    for part in (flat[n::parts] for n in range(parts)):
        if grow.rng.random() < 0.5 and part:
            sums = [mx.sym.sum(tensor, axis=0, keepdims=True) for tensor in part]
            outputs.append(mx.sym.add_n(*sums) if grow.rng.random() < 0.5 else sum(sums[1:], sums[0]))
        elif part:
            outputs.append(mx.sym.Concat(*part, dim=0, name=grow.name("concat")))
    return mx.sym.Group(outputs)
