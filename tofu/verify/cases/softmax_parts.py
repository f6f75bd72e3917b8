"""The operators that a softmax runs as where its own axis is split."""

from __future__ import annotations

from tofu.verify.case import Case, uniform

CASES = [
    case
    for axis, shape, lines in ((-1, (4, 3, 5), (4, 3, 1)), (1, (4, 5, 3), (4, 1, 3)))
    for attributes in ({"axis": axis, "temperature": 2.0},)
    for sums in (uniform(2, 3, *lines),)
    for case in (
        Case("_tofu_softmax_maximum", {"axis": axis}, [shape], ()),
        Case("_tofu_softmax_sum", attributes, [shape, lines], ()),
        Case("_tofu_softmax_apply", attributes, [shape, lines, sums], (), double=(2,)),
        Case("_tofu_log_softmax_apply", attributes, [shape, lines, sums], (), double=(2,)),
        Case("_tofu_softmax_backward_sum", {"axis": axis}, [shape, shape], ()),
        Case("_tofu_log_softmax_backward_sum", {"axis": axis}, [shape], ()),
        Case("_tofu_softmax_backward_apply", attributes, [shape, shape, lines], (), double=(2,)),
        Case("_tofu_log_softmax_backward_apply", attributes, [shape, shape, lines], (), double=(2,)),
    )
]
