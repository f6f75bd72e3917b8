from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu.verification.numbers import labels, uniform

GRADIENT = "_tofu_softmax_output_gradient"
COUNT = uniform(2, 30, 1)
IGNORING = {"use_ignore": True, "ignore_label": 1, "grad_scale": 0.5}
GRADIENTS = [
    ({"smooth_alpha": 0.1, "classes": 9, "names": "b0 k"}, (5, 7), labels(7, 5)),
    (IGNORING | {"classes": 7, "names": "b0 b1 k", "axis": 2}, (5, 3, 7), labels(7, 5, 3)),
    (IGNORING | {"classes": 7, "names": "b k s0", "axis": 1}, (5, 7, 3), labels(7, 5, 3)),
    (IGNORING | {"classes": 4, "names": "b k s0 s1", "axis": 1}, (5, 4, 3, 2), labels(4, 5, 6)),
    (IGNORING | {"classes": 4, "names": "b k s0 s1", "axis": 1}, (5, 4, 3, 2), labels(4, 5, 1, 3, 2)),
]

LABELS = {
    "b0 b1": labels(3, 5, 2),
    "b s0 s1": labels(4, 5, 3, 2),
    "b m": labels(4, 5, 6),
    "b only s0": labels(4, 5, 1, 3),
}

CASES = [
    *(Case("_tofu_valid_labels", {"ignore_label": 1, "names": names}, [own], ()) for names, own in LABELS.items()),
    *(Case(GRADIENT, attributes, [shape, label], (), SINGLE_PRECISION) for attributes, shape, label in GRADIENTS),
    *(
        Case(f"{GRADIENT}_by_count", attributes, [shape, label, COUNT], (), SINGLE_PRECISION, double=(2,))
        for attributes, shape, label in GRADIENTS
    ),
]
