"""Replace BatchNorm and LayerNorm, so that the dimensions over which they normalise can be split.

Workers first add their sums of the elements, then their sums of squared deviations from the mean. This is exact even if
the mean is large. As in MXNet, only the backward operator changes BatchNorm's moving statistics.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tdl_ops.mxnet.attributes import is_true
from tofu.graph import Operator
from tofu.lowering.parts import Attributes, Inputs, Lowering, Parts
from tofu.mxnet.frontend.origin import find_origin
from tofu.mxnet.lowerings.conventions import positive_axis, reduce_shape, select_attributes


def _batch_norm_attributes(parts: Parts, slot: int) -> tuple[dict[str, str], int]:
    shape = parts.shape(slot)
    attributes = select_attributes(parts.whole.attributes, "eps", "momentum", "fix_gamma", "use_global_stats", "axis")
    channels = shape[positive_axis(attributes, len(shape), 1)]
    return {**attributes, "count": str(prod(shape) // channels)}, channels


def _expand_batch_norm(parts: Parts) -> None:
    data, gamma, beta, moving_mean, moving_var = parts.whole.inputs
    attributes, channels = _batch_norm_attributes(parts, 0)
    writes = _written_gamma(attributes)
    if is_true(attributes, "use_global_stats"):
        inputs = (data, gamma, beta, moving_mean, moving_var)
        parts.last_operator("_tofu_batch_norm_global", attributes, inputs, writes)
        return
    sums, squares = parts.inner_tensor("sum", (channels,)), parts.inner_tensor("squares", (channels,))
    parts.inner_operator("sum", "_tofu_batch_norm_sum", attributes, (data,), (sums,))
    parts.inner_operator("squares", "_tofu_batch_norm_squares", attributes, (data, sums), (squares,))
    parts.last_operator("_tofu_batch_norm_apply", attributes, (data, gamma, beta, sums, squares), writes)


def _written_gamma(attributes: Attributes) -> tuple[int, ...]:
    return (1,) if is_true(attributes, "fix_gamma", True) else ()


def _expand_batch_norm_backward(parts: Parts) -> None:
    d_out, mean, inverse_std, data, gamma, _, moving_mean, moving_var = parts.whole.inputs
    attributes, channels = _batch_norm_attributes(parts, 3)
    sums = parts.inner_tensor("by_beta", (channels,)), parts.inner_tensor("by_gamma", (channels,))
    summed = (d_out, data, mean, inverse_std)
    parts.inner_operator("sums", "_tofu_batch_norm_backward_sums", attributes, summed, sums)
    inputs = (*summed, gamma, moving_mean, moving_var, *sums)
    parts.last_operator("_tofu_batch_norm_backward_apply", attributes, inputs, mutates=(5, 6))


def _use_moving_statistics(attributes: Attributes) -> Attributes:
    return {**attributes, "use_global_stats": "True"}


def _request_mean(operator: Operator) -> Operator:
    gamma = _written_gamma(operator.attributes)
    origin = replace(find_origin(operator), requested=gamma)  # the kernel then sets a fixed gamma to ones
    return replace(operator, mutates=tuple(sorted({*operator.mutates, *gamma})), origin=origin)


def _uses_batch_statistics(operator: Operator, inputs: Inputs) -> bool:
    return not is_true(operator.attributes, "use_global_stats")


def _layer_norm_attributes(parts: Parts, slot: int) -> tuple[dict[str, str], tuple[int, ...]]:
    shape = parts.shape(slot)
    attributes = select_attributes(parts.whole.attributes, "eps", "axis")
    axis = positive_axis(attributes, len(shape), -1)
    return {**attributes, "count": str(shape[axis])}, reduce_shape(shape, axis)


def _expand_layer_norm(parts: Parts) -> None:
    data, gamma, beta = parts.whole.inputs
    attributes, lines = _layer_norm_attributes(parts, 0)
    sums, squares = parts.inner_tensor("sum", lines), parts.inner_tensor("squares", lines)
    parts.inner_operator("sum", "_tofu_layer_norm_sum", attributes, (data,), (sums,))
    parts.inner_operator("squares", "_tofu_layer_norm_squares", attributes, (data, sums), (squares,))
    parts.last_operator("_tofu_layer_norm_apply", attributes, (data, gamma, beta, sums, squares))


def _expand_layer_norm_backward(parts: Parts) -> None:
    attributes, lines = _layer_norm_attributes(parts, 1)
    sums = parts.inner_tensor("scaled", lines), parts.inner_tensor("projected", lines)
    parts.inner_operator("sums", "_tofu_layer_norm_backward_sums", attributes, parts.whole.inputs, sums)
    parts.last_operator("_tofu_layer_norm_backward_apply", attributes, (*parts.whole.inputs, *sums))


LOWERINGS = {
    "BatchNorm": Lowering(_expand_batch_norm, _request_mean, _use_moving_statistics),
    "_backward_BatchNorm": Lowering(_expand_batch_norm_backward, is_possible=_uses_batch_statistics),
    "LayerNorm": Lowering(_expand_layer_norm),
    "_backward_LayerNorm": Lowering(_expand_layer_norm_backward),
}
