from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu.verification.numbers import labels, uniform
from tofu.verification.report import TOLERANCE

BATCH, VALID = {"normalization": "batch"}, {"normalization": "valid"}
MULTIPLE, SHAPED = {"multi_output": True}, {"preserve_shape": True}
IGNORED = {"use_ignore": True, "ignore_label": 1}
ROWS = [
    ({}, (5, 7), labels(7, 5), TOLERANCE),
    (BATCH | {"grad_scale": 0.5}, (5, 7), labels(7, 5), SINGLE_PRECISION),
    (VALID | IGNORED, (5, 3), labels(3, 5), SINGLE_PRECISION),
    (VALID | {"ignore_label": 1}, (5, 3), labels(3, 5), SINGLE_PRECISION),
    ({"use_ignore": True, "ignore_label": 0}, (5, 3), labels(3, 5), TOLERANCE),
    ({"smooth_alpha": 0.1}, (5, 7), labels(7, 5), SINGLE_PRECISION),
    (MULTIPLE, (5, 7, 3), labels(7, 5, 3), SINGLE_PRECISION),
    (MULTIPLE, (5, 4, 3, 2), labels(4, 5, 3, 2), SINGLE_PRECISION),
    (MULTIPLE | BATCH, (5, 4, 3, 2), labels(4, 5, 6), SINGLE_PRECISION),
    (MULTIPLE | VALID | {"use_ignore": True, "ignore_label": 0}, (5, 7, 3), labels(7, 5, 3), SINGLE_PRECISION),
    (SHAPED | BATCH, (5, 3, 7), labels(7, 5, 3), SINGLE_PRECISION),
    ({"grad_scale": 2.0}, (5, 7), uniform(0, 1, 5, 7), TOLERANCE),
    *(
        (MULTIPLE | normalization, (5, 4, 3, 2), labels(4, 5, 1, 3, 2), SINGLE_PRECISION)
        for normalization in (BATCH, VALID)
    ),
    *(
        ({"out_grad": True, "normalization": name, "grad_scale": 0.5} | attributes, shape, label, SINGLE_PRECISION)
        for name in ("null", "batch", "valid")
        for attributes, shape, label in (
            ({}, (5, 7), labels(7, 5)),
            (IGNORED | SHAPED, (5, 3, 4), labels(4, 5, 3)),
            (IGNORED | MULTIPLE, (5, 4, 3), labels(4, 5, 3)),
        )
    ),
    ({"out_grad": True}, (5, 7), uniform(0, 1, 5, 7), TOLERANCE),
]

CASES = [
    Case("SoftmaxOutput", attributes, [shape, label], None, tolerance) for attributes, shape, label, tolerance in ROWS
]
