"""Dropout. What is drawn cannot be compared: what is computed from it can."""

from __future__ import annotations

from tofu.verify.case import Case

DRAWN = {
    "Dropout": lambda inputs, outputs: [inputs[0] * outputs[1], outputs[1]],
    "_backward_Dropout": lambda inputs, outputs: [inputs[0] * inputs[1]],
}

CASES = [
    Case("Dropout", {"p": 0.5}, [(5, 3, 7)], relations=DRAWN),
    Case("Dropout", {"p": 0.25, "mode": "always"}, [(5, 7)], relations=DRAWN),
    Case("Dropout", {"p": 0.5, "axes": (1,)}, [(5, 3, 7)], relations=DRAWN),
    Case("Dropout", {"p": 0.0}, [(5, 7)]),
]
