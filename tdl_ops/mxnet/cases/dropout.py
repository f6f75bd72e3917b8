"""Dropout. The mask is random, so the outputs are compared with outputs computed from the mask."""

from dataclasses import dataclass

import numpy as np

from tdl_ops.mxnet.case import Case


@dataclass(frozen=True)
class Kept:
    """A check that dropout returns data x mask. The mask is 0 or 1 / (1 - p)."""

    p: float

    def __call__(self, inputs, outputs):
        kept = float(np.float32(1) / np.float32(1 - self.p))  # as MXNet, in single precision
        mask = np.where(outputs[1] > kept / 2, kept, 0.0)
        return [inputs[0] * mask, mask]


def _backward(inputs, outputs):
    return [inputs[0] * inputs[1]]


def _relate(p):
    return {"Dropout": Kept(p), "_backward_Dropout": _backward}


CASES = [
    Case("Dropout", {"p": 0.5}, [(5, 3, 7)], relations=_relate(0.5)),
    Case("Dropout", {"p": 0.25, "mode": "always"}, [(5, 7)], relations=_relate(0.25)),
    Case("Dropout", {"p": 0.5, "axes": (1,)}, [(5, 3, 7)], relations=_relate(0.5)),
    Case("Dropout", {"p": 0.0}, [(5, 7)]),
]
