from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import uniform


def _list_cases(axis, data, lines):
    std, counted = uniform(0.5, 2, *lines), axis | {"count": 8}
    return [
        Case("_tofu_layer_norm_sum", axis, [data], ()),
        Case("_tofu_layer_norm_squares", counted, [data, lines], (), double=(1,)),
        Case("_tofu_layer_norm_apply", counted, [data, (5,), (5,), lines, std], (), double=(3, 4)),
        Case("_tofu_layer_norm_backward_sums", axis, [data, data, (5,), lines, std], ()),
        Case(
            "_tofu_layer_norm_backward_apply", counted, [data, data, (5,), lines, std, lines, lines], (), double=(5, 6)
        ),
    ]


CASES = _list_cases({"axis": -1}, (4, 3, 5), (4, 3, 1)) + _list_cases({"axis": 1}, (4, 5, 3), (4, 1, 3))
