from dataclasses import replace

from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import Fixed, uniform, whole

CORNERS = Fixed(((0.1, 0.1, 0.5, 0.5), (0.2, 0.2, 0.6, 0.7), (0.5, 0.5, 0.9, 0.9)))
OTHERS = Fixed(
    ((0.1, 0.2, 0.5, 0.6), (0.4, 0.4, 0.8, 0.7), (0.0, 0.0, 1.0, 1.0), (0.6, 0.1, 0.9, 0.3), (0.3, 0.3, 0.5, 0.9))
)
SCORED = Fixed(
    tuple(tuple((n % 2, 0.9 - 0.2 * n + 0.05 * b, *box) for n, box in enumerate(OTHERS.values)) for b in range(3))
)


TARGETS = (
    whole(0, 2, 2, 3),
    whole(0, 5, 2, 3),
    *(replace(boxes, values=(boxes.values,) * 2) for boxes in (CORNERS, OTHERS)),
    uniform(0, 1, 4),
    uniform(1, 2, 4),
)

CASES = [
    *(Case("_contrib_box_iou", {"format": kind}, [CORNERS, OTHERS]) for kind in ("corner", "center")),
    Case("_contrib_box_nms", {"id_index": 0}, [SCORED]),
    Case("_contrib_box_nms", {"overlap_thresh": 0.1, "topk": 3, "in_format": "center"}, [SCORED]),
    Case(
        "_contrib_box_nms",
        {"id_index": 0, "background_id": 1, "valid_thresh": 0.3, "force_suppress": True, "out_format": "center"},
        [SCORED],
    ),
    Case("_contrib_box_nms", {"id_index": 0, "overlap_thresh": 0.2}, [Fixed((SCORED.values, SCORED.values[::-1]))]),
    Case("_contrib_bipartite_matching", {"threshold": 0.2}, [uniform(0, 1, 3, 4, 5)]),
    Case("_contrib_bipartite_matching", {"threshold": 0.9, "is_ascend": True, "topk": 2}, [uniform(0, 1, 3, 4, 5)]),
    Case("_contrib_box_decode", {"std0": 0.125}, [(3, 5, 4), (1, 5, 4)], wrt=()),
    Case("_contrib_box_decode", {"clip": 0.5, "format": "corner"}, [(3, 5, 4), (1, 5, 4)], wrt=()),
    Case("_contrib_box_encode", {}, [replace(numbers, dtype="float32") for numbers in TARGETS], wrt=()),
]
