"""Softmax with the gradient of its cross entropy: every normalization and layout of labels."""

from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu.verification.numbers import labels, uniform

CASES = [
    Case("SoftmaxOutput", {}, [(5, 7), labels(7, 5)]),
    Case(
        "SoftmaxOutput", {"normalization": "batch", "grad_scale": 0.5}, [(5, 7), labels(7, 5)], None, SINGLE_PRECISION
    ),
    Case(
        "SoftmaxOutput",
        {"normalization": "valid", "use_ignore": True, "ignore_label": 1},
        [(5, 3), labels(3, 5)],
        None,
        SINGLE_PRECISION,
    ),
    Case(
        "SoftmaxOutput", {"normalization": "valid", "ignore_label": 1}, [(5, 3), labels(3, 5)], None, SINGLE_PRECISION
    ),
    Case("SoftmaxOutput", {"use_ignore": True, "ignore_label": 0}, [(5, 3), labels(3, 5)]),
    Case("SoftmaxOutput", {"smooth_alpha": 0.1}, [(5, 7), labels(7, 5)], None, SINGLE_PRECISION),
    Case("SoftmaxOutput", {"multi_output": True}, [(5, 7, 3), labels(7, 5, 3)], None, SINGLE_PRECISION),
    Case("SoftmaxOutput", {"multi_output": True}, [(5, 4, 3, 2), labels(4, 5, 3, 2)], None, SINGLE_PRECISION),
    Case(
        "SoftmaxOutput",
        {"multi_output": True, "normalization": "batch"},
        [(5, 4, 3, 2), labels(4, 5, 6)],
        None,
        SINGLE_PRECISION,
    ),
    Case(
        "SoftmaxOutput",
        {"multi_output": True, "normalization": "valid", "use_ignore": True, "ignore_label": 0},
        [(5, 7, 3), labels(7, 5, 3)],
        None,
        SINGLE_PRECISION,
    ),
    Case(
        "SoftmaxOutput",
        {"preserve_shape": True, "normalization": "batch"},
        [(5, 3, 7), labels(7, 5, 3)],
        None,
        SINGLE_PRECISION,
    ),
    Case("SoftmaxOutput", {"grad_scale": 2.0}, [(5, 7), uniform(0, 1, 5, 7)]),
    *(
        Case(
            "SoftmaxOutput",
            {"multi_output": True, "normalization": name},
            [(5, 4, 3, 2), labels(4, 5, 1, 3, 2)],
            None,
            SINGLE_PRECISION,
        )
        for name in ("batch", "valid")
    ),
    *(
        Case(
            "SoftmaxOutput",
            {"out_grad": True, "normalization": name, "grad_scale": 0.5} | attributes,
            [shape, label],
            None,
            SINGLE_PRECISION,
        )
        for name in ("null", "batch", "valid")
        for attributes, shape, label in (
            ({}, (5, 7), labels(7, 5)),
            ({"use_ignore": True, "ignore_label": 1, "preserve_shape": True}, (5, 3, 4), labels(4, 5, 3)),
            ({"use_ignore": True, "ignore_label": 1, "multi_output": True}, (5, 4, 3), labels(4, 5, 3)),
        )
    ),
    Case("SoftmaxOutput", {"out_grad": True}, [(5, 7), uniform(0, 1, 5, 7)]),
]
