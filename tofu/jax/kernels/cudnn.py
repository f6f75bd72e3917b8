"""Derive split rules for cuDNN's attention, which `jax.nn.dot_product_attention(implementation="cudnn")` calls.

The forward kernel takes ten operands: query, key, value, bias, lengths of queries and of keys, two offsets of packed
sequences, and two page tables. The backward kernel also takes the softmax statistics, the result, and the result's
cotangent. Operands that are not used have no elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tofu.jax.frontend.equations import Equation
from tofu.jax.kernels.call import KernelCall
from tofu.jax.kernels.rule import Dimension, Dimensions, Shape, SplitRule

FORWARD, BACKWARD = "dot_product_attention_fwd_wrapper", "dot_product_attention_bwd_wrapper"
HEADS_FIRST = 1
"""The layout with heads before positions."""


def read_attention(equation: Equation, shapes: Sequence[Shape]) -> KernelCall:
    """Return the kernel of cuDNN's attention, or of its gradient, for operands of these shapes."""
    parameters, primitive = equation.params, equation.primitive

    def run(*operands: Any) -> Sequence[Any]:
        # If the primitive itself were bound, XLA would partition it once more.
        results: Sequence[Any] = primitive.impl(*operands, **parameters)
        return results

    is_backward, (_, has_bias_gradient) = primitive.name == BACKWARD, parameters["variadic_args"]
    saves = has_bias_gradient if is_backward else parameters["is_training"]
    rule = find_attention_rule(shapes, parameters["layout"] == HEADS_FIRST, is_backward, saves)
    refused = ""
    if parameters["dropout_rate"] > 0:
        refused = f"cuDNN's attention at {equation.line} drops numbers by their positions in the whole batch. Use dropout_rate=0"
    return KernelCall(primitive.name, run, rule, refused=refused)


def find_attention_rule(shapes: Sequence[Shape], is_heads_first: bool, is_backward: bool, has_more: bool) -> SplitRule:
    """Return the rule of attention, with axes for the batch and for the heads of keys.

    Several query heads may share a key head. If `has_more` is True, the forward kernel also returns softmax statistics,
    or the backward kernel the bias's gradient. Packed and paged sequences are split only by heads, because no dimension
    is their batch.
    """
    query, key, bias, offsets, pages = shapes[0], shapes[1], shapes[3], shapes[6], shapes[8]
    heads_at = 1 if is_heads_first else 2
    shared = query[heads_at] // key[heads_at]
    is_batched = len(offsets) != 2 and len(pages) != 4
    batch: Dimension = ("batch", 1) if is_batched else ()
    head: Dimension = ("heads", shared)

    def lay_out(heads: Dimension) -> Dimensions:
        return (batch, heads, (), ()) if is_heads_first else (batch, (), heads, ())

    queries, keys = lay_out(head), lay_out(("heads", 1))
    saved: Dimensions = (batch, head, ())
    biases: Dimensions = ()
    if len(bias) == 4:
        biases = (batch if bias[0] == query[0] > 1 else (), head if bias[1] == query[heads_at] > 1 else (), (), ())
    lengths = tuple(
        (batch,) if len(shape) == 1 and shape[0] == query[0] else ((),) * len(shape) for shape in shapes[4:6]
    )
    rest = tuple(((),) * len(shape) for shape in shapes[6:10])
    inputs = (queries, keys, keys, biases or ((),) * len(bias), *lengths, *rest)
    if not is_backward:
        return SplitRule(inputs, (queries, saved) if has_more else (queries,))
    return SplitRule((*inputs, saved, queries, queries), (queries, keys, keys, *((biases,) if has_more else ())))
