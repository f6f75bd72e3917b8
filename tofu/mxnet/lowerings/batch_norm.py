"""BatchNorm split by batch and space: statistics as sums over the workers, then the rest from whole sums.

Two passes, sum and squares around the mean, are exact whatever the mean; each costs the workers a few numbers per channel. The
parts: `csrc/nnvm/parts/batch_norm.cc`, described in `tdl_ops/mxnet/batch_norm_parts.py`. As in MXNet the moving statistics change in
the backward operator, and nowhere else.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tofu.graph import Operator
from tofu.lowering.parts import Attributes, Inputs, Lowering, Parts
from tofu.mxnet.frontend.origin import find_origin
from tofu.mxnet.lowerings.conventions import is_true, positive_axis

KEPT = ("eps", "momentum", "fix_gamma", "use_global_stats", "axis")


def _attributes(parts: Parts, slot: int) -> tuple[dict[str, str], int]:
    """The attributes of the parts, and the number of channels; the data is the operator's input `slot`."""
    shape = parts.shape(slot)
    kept = {name: value for name, value in parts.whole.attributes.items() if name in KEPT}
    channels = shape[positive_axis(kept, len(shape), 1)]
    return {**kept, "count": str(prod(shape) // channels)}, channels


def _expand_forward(parts: Parts) -> None:
    data, gamma, beta, moving_mean, moving_var = parts.whole.inputs
    attributes, channels = _attributes(parts, 0)
    writes = _written_gamma(attributes)
    if is_true(attributes, "use_global_stats", False):
        inputs = (data, gamma, beta, moving_mean, moving_var)
        parts.last_operator("_tofu_batch_norm_global", attributes, inputs, writes)
        return
    sums, squares = parts.inner_tensor("sum", (channels,)), parts.inner_tensor("squares", (channels,))
    parts.inner_operator("sum", "_tofu_batch_norm_sum", attributes, (data,), (sums,))
    parts.inner_operator("squares", "_tofu_batch_norm_squares", attributes, (data, sums), (squares,))
    parts.last_operator("_tofu_batch_norm_apply", attributes, (data, gamma, beta, sums, squares), writes)


def _written_gamma(attributes: Attributes) -> tuple[int, ...]:
    """A gamma that is fixed, input 1, is set to 1 in the forward operator."""
    return (1,) if is_true(attributes, "fix_gamma", True) else ()


def _expand_backward(parts: Parts) -> None:
    d_out, mean, inverse_std, data, gamma, _, moving_mean, moving_var = parts.whole.inputs
    attributes, channels = _attributes(parts, 3)
    by_beta, by_gamma = parts.inner_tensor("by_beta", (channels,)), parts.inner_tensor("by_gamma", (channels,))
    parts.inner_operator(
        "sums",
        "_tofu_batch_norm_backward_sums",
        attributes,
        (d_out, data, mean, inverse_std),
        (by_beta, by_gamma),
    )
    inputs = (d_out, data, mean, inverse_std, gamma, moving_mean, moving_var, by_beta, by_gamma)
    parts.last_operator("_tofu_batch_norm_backward_apply", attributes, inputs, mutates=(5, 6))


def _global(attributes: Attributes) -> Attributes:
    """In inference the moving statistics are used, as use_global_stats asks for in training."""
    return {**attributes, "use_global_stats": "True"}


def _ask_for_mean(operator: Operator) -> Operator:
    """The stock kernel sets a fixed gamma to 1 where it is asked for the mean, output 1, and does not say that it changes it."""
    written = _written_gamma(operator.attributes)
    origin = replace(find_origin(operator), asked=written)
    return replace(operator, mutates=tuple(sorted({*operator.mutates, *written})), origin=origin)


def _uses_own_statistics(operator: Operator, inputs: Inputs) -> bool:
    """Given statistics are constants: the stock gradient splits by batch and space then."""
    return not is_true(operator.attributes, "use_global_stats", False)


LOWERINGS = {
    "BatchNorm": Lowering(_expand_forward, _ask_for_mean, _global),
    "_backward_BatchNorm": Lowering(_expand_backward, is_possible=_uses_own_statistics),
}
