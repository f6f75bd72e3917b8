from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import labels, uniform

CASES = [
    Case("_tofu_softmax_output_apply", attributes, [data, lines, uniform(2, 3, *lines), label], (), double=(2,))
    for attributes, data, lines, label in (
        ({"axis": 1, "names": "b k s0 s1"}, (4, 5, 3, 2), (4, 1, 3, 2), labels(5, 4, 6)),
        ({"names": "b0 b1 k"}, (4, 3, 5), (4, 3, 1), labels(5, 4, 3)),
    )
]
CASES += [
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
