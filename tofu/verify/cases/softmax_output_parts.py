"""The operators that the gradient of a softmax runs as where it is divided by the number of valid labels."""

from __future__ import annotations

from tofu.verify.case import SINGLE_PRECISION, Case, labels, uniform

COUNT = uniform(2, 30, 1)
IGNORING = {"use_ignore": True, "ignore_label": 1, "grad_scale": 0.5}
GRADIENTS = [
    ({"smooth_alpha": 0.1}, (5, 7), labels(7, 5)),
    (IGNORING, (5, 3, 7), labels(7, 5, 3)),
    (IGNORING | {"axis": 1}, (5, 7, 3), labels(7, 5, 3)),
    (IGNORING | {"axis": 1, "merged": True}, (5, 4, 3, 2), labels(4, 5, 6)),
]

CASES = [
    *(
        Case("_tofu_valid_labels", {"ignore_label": 1, **attributes}, [label], ())
        for attributes, label in (
            ({}, labels(3, 5)),
            ({"axis": 1}, labels(4, 5, 3, 2)),
            ({"axis": 1, "merged": True}, labels(4, 5, 6)),
        )
    ),
    *(
        Case("_tofu_softmax_output_gradient", attributes, [shape, label, COUNT], (), SINGLE_PRECISION, double=(2,))
        for attributes, shape, label in GRADIENTS
    ),
]
