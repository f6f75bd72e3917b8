from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import labels, uniform


def _list_cases(axis, shape, lines):
    warm, sums = axis | {"temperature": 2.0}, uniform(2, 3, *lines)
    return [
        Case("_tofu_softmax_maximum", axis, [shape], ()),
        Case("_tofu_softmax_sum", warm, [shape, lines], ()),
        Case("_tofu_softmax_apply", warm, [shape, lines, sums], (), double=(2,)),
        Case("_tofu_log_softmax_apply", warm, [shape, lines, sums], (), double=(2,)),
        Case("_tofu_softmax_backward_sum", axis, [shape, shape], ()),
        Case("_tofu_log_softmax_backward_sum", axis, [shape], ()),
        Case("_tofu_softmax_backward_apply", warm, [shape, shape, lines], (), double=(2,)),
        Case("_tofu_log_softmax_backward_apply", warm, [shape, shape, lines], (), double=(2,)),
    ]


CASES = [
    *(
        Case("_tofu_softmax_output_apply", attributes, [data, lines, uniform(2, 3, *lines), label], (), double=(2,))
        for attributes, data, lines, label in (
            ({"axis": 1, "names": "b k s0 s1"}, (4, 5, 3, 2), (4, 1, 3, 2), labels(5, 4, 6)),
            ({"names": "b0 b1 k"}, (4, 3, 5), (4, 3, 1), labels(5, 4, 3)),
        )
    ),
    *_list_cases({"axis": -1}, (4, 3, 5), (4, 3, 1)),
    *_list_cases({"axis": 1}, (4, 5, 3), (4, 1, 3)),
]
