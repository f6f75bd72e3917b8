"""Functions that test whether an operator draws random numbers, in training or in inference."""

from __future__ import annotations

from tofu import _mxnet
from tofu.graph.semantic import Operator

DROP_PROBABILITIES = {"Dropout": 0.5, "RNN": 0.0}
"""For each operator that drops elements at random, the default probability."""
TRAINING_ONLY = ("Dropout", "LeakyReLU", "RNN")
"""Operators that draw random numbers only in training, unless their attribute `mode` is "always"."""


def _may_draw_in_mxnet(operator: Operator) -> bool:
    return not operator.op.startswith("_tofu_") and bool(_mxnet.operator_info(operator.op)["is_random"])


def draws(operator: Operator) -> bool:
    """Return True if the operator draws random numbers in training."""
    if operator.op in DROP_PROBABILITIES:
        return float(operator.attributes.get("p", DROP_PROBABILITIES[operator.op])) > 0
    if operator.op == "LeakyReLU":
        return operator.attributes.get("act_type") == "rrelu"
    return _may_draw_in_mxnet(operator)


def draws_in(operator: Operator, for_training: bool) -> bool:
    """Return True if a random operator draws numbers in this mode. Dropout usually draws only in training."""
    return for_training or operator.attributes.get("mode") == "always" or operator.op not in TRAINING_ONLY


def draws_undescribed(operator: Operator, is_whole: bool) -> bool:
    """Return True if an operator draws random numbers that its description ignores, such as RNN's dropout.

    `is_whole` is True for operators that are not split.
    """
    if operator.op in ("RNN", "LeakyReLU"):
        return draws(operator)
    return is_whole and _may_draw_in_mxnet(operator)
