"""Derive split rules for cuDNN's attention, as called by `jax.nn.dot_product_attention(implementation="cudnn")`.

A split rule names the axes along which workers can divide the computation. The forward kernel takes query, key, value,
bias, two lengths, two offsets of packed sequences, and two page tables. The backward kernel also takes the softmax
statistics, the result, and the result's gradient. Unused operands are empty arrays.
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
    """Convert an equation that runs cuDNN's attention, or its gradient, to a `KernelCall`.

    The call states along which axes the kernel can be split. `shapes` are the shapes of the operands.
    """
    parameters, primitive = equation.params, equation.primitive

    def run(*operands: Any) -> Sequence[Any]:
        # If the primitive itself were bound, XLA would partition it once more.
        return list(primitive.impl(*operands, **parameters))

    is_backward, (_, has_bias_gradient) = primitive.name == BACKWARD, parameters["variadic_args"]
    has_extra_result = has_bias_gradient if is_backward else parameters["is_training"]
    rule = find_attention_rule(shapes, parameters["layout"] == HEADS_FIRST, is_backward, has_extra_result)
    refused = ""
    if parameters["dropout_rate"] > 0:
        refused = f"cuDNN's attention at {equation.line} drops numbers by their positions in the whole batch. Use dropout_rate=0"
    return KernelCall(primitive.name, run, rule, refused=refused)


def find_attention_rule(
    shapes: Sequence[Shape], is_heads_first: bool, is_backward: bool, has_extra_result: bool
) -> SplitRule:
    """Return the split rule of attention, along the batch and the heads.

    If sequences are packed into one array or stored in pages, there is no batch dimension. If `has_extra_result` is
    True, the forward kernel also returns softmax statistics, and the backward kernel also returns the bias gradient.
    """
    query, key, bias, offsets, pages = shapes[0], shapes[1], shapes[3], shapes[6], shapes[8]
    heads_axis = 1 if is_heads_first else 2
    heads_per_key = query[heads_axis] // key[heads_axis]
    has_batch = len(offsets) != 2 and len(pages) != 4
    batch: Dimension = ("batch", 1) if has_batch else ()
    head: Dimension = ("heads", heads_per_key)

    def order_dimensions(heads: Dimension) -> Dimensions:
        return (batch, heads, (), ()) if is_heads_first else (batch, (), heads, ())

    queries, keys = order_dimensions(head), order_dimensions(("heads", 1))
    statistics: Dimensions = (batch, head, ())
    biases: Dimensions = ()
    if len(bias) == 4:
        bias_batch: Dimension = batch if bias[0] == query[0] > 1 else ()
        biases = (bias_batch, head if bias[1] == query[heads_axis] > 1 else (), (), ())
    lengths = tuple(
        (batch,) if len(shape) == 1 and shape[0] == query[0] else ((),) * len(shape) for shape in shapes[4:6]
    )
    unsplit = tuple(((),) * len(shape) for shape in shapes[6:10])
    inputs = (queries, keys, keys, biases or ((),) * len(bias), *lengths, *unsplit)
    if not is_backward:
        return SplitRule(inputs, (queries, statistics) if has_extra_result else (queries,))
    gradients = (queries, keys, keys, *((biases,) if has_extra_result else ()))
    return SplitRule((*inputs, statistics, queries, queries), gradients)
