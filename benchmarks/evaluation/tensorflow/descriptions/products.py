"""Operators along one dimension or on matrices: losses over classes, products of vectors, least squares."""

from __future__ import annotations

import numpy as np

from benchmarks.evaluation.tensorflow import describe
from tofu.tdl import Max, Opaque, Sum, exp, log, position, square, where

WHOLE = slice(None)


@describe("Cross", inputs=[(4, 3), (4, 3)], outputs=[(4, 3)])
def cross(a, b):
    product = Opaque(np.cross, "cross")
    return lambda *i: product(a[(*i[:-1], WHOLE)], b[(*i[:-1], WHOLE)])[i[-1]]


@describe("MatrixSolveLs", inputs=[(2, 5, 3), (2, 5, 4), ()], outputs=[(2, 3, 4)])
def least_squares(matrix, right, penalty):
    def solve(a, y, penalty):
        return np.linalg.solve(a.T @ a + penalty * np.eye(a.shape[1]), a.T @ y)

    solved = Opaque(solve, "least_squares")
    return lambda *i: solved(matrix[(*i[:-2], WHOLE, WHOLE)], right[(*i[:-2], WHOLE, i[-1])], penalty[()])[i[-2]]


@describe("L2Loss", inputs=[(4, 5)], outputs=[()])
def half_squares(x):
    return lambda: Sum(lambda *k: square(x[k]) / 2, names=" ".join(f"k{d}" for d in range(x.ndim)))


@describe("InTopK", inputs=[(4, 5), (4,)], outputs=[(4,)], attributes={"k": 2})
def in_top_k(predictions, targets, *, k):
    own = lambda b: Sum(lambda t: where(targets[b] == position(t), predictions[b, t], 0.0))
    return lambda b: Sum(lambda c: where(predictions[b, c] > own(b), 1.0, 0.0)) < k


def _describe_cross_entropy(logits, find_label):
    largest = lambda b: Max(lambda m: logits[b, m])
    total = lambda b: Sum(lambda n: exp(logits[b, n] - largest(b)))
    logarithm = lambda b, c: logits[b, c] - largest(b) - log(total(b))
    loss = lambda b: Sum(lambda c: -find_label(b, c) * logarithm(b, c))
    return lambda b: loss(b), lambda b, k: exp(logarithm(b, k)) - find_label(b, k)


@describe("SoftmaxCrossEntropyWithLogits", inputs=[(4, 5), (4, 5)], outputs=[(4,), (4, 5)])
def cross_entropy(logits, labels):
    return _describe_cross_entropy(logits, lambda b, c: labels[b, c])


@describe("SparseSoftmaxCrossEntropyWithLogits", inputs=[(4, 5), (4,)], outputs=[(4,), (4, 5)])
def sparse_cross_entropy(logits, labels):
    return _describe_cross_entropy(logits, lambda b, c: where(labels[b] == position(c), 1.0, 0.0))
