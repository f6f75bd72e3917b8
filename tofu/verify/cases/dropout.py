"""Dropout. What is drawn cannot be compared: what is computed from it can."""

from __future__ import annotations

from collections.abc import Sequence

from tofu.verify.case import Case
from tofu.verify.kernels import Array


def _forward(inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
    return [inputs[0] * outputs[1], outputs[1]]


def _backward(inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
    return [inputs[0] * inputs[1]]


DRAWN = {"Dropout": _forward, "_backward_Dropout": _backward}

CASES = [
    Case("Dropout", {"p": 0.5}, [(5, 3, 7)], relations=DRAWN),
    Case("Dropout", {"p": 0.25, "mode": "always"}, [(5, 7)], relations=DRAWN),
    Case("Dropout", {"p": 0.5, "axes": (1,)}, [(5, 3, 7)], relations=DRAWN),
    Case("Dropout", {"p": 0.0}, [(5, 7)]),
]
