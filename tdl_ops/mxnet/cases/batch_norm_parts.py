from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import ones, uniform

POSITIVE = uniform(0.5, 2, 3)


def _list_sums(axis, data):
    return [
        Case("_tofu_batch_norm_sum", axis, [data], ()),
        Case("_tofu_batch_norm_squares", axis | {"count": 40}, [data, (3,)], (), double=(1,)),
        Case("_tofu_batch_norm_backward_sums", axis, [data, data, (3,), POSITIVE], ()),
    ]


def _list_applications(attributes, data, gamma):
    counted, saved = attributes | {"count": 40}, [data, data, (3,), POSITIVE, gamma, (3,), POSITIVE, (3,), (3,)]
    return [
        Case("_tofu_batch_norm_apply", counted, [data, gamma, (3,), (3,), POSITIVE], (), double=(3, 4)),
        Case("_tofu_batch_norm_global", attributes, [data, gamma, (3,), (3,), POSITIVE], ()),
        Case("_tofu_batch_norm_backward_apply", counted, saved, (), double=(7, 8)),
    ]


CASES = [
    *_list_sums({"axis": 1}, (5, 3, 4, 2)),
    *_list_sums({"axis": -1}, (5, 4, 3)),
    *_list_sums({"axis": 0}, (3, 7)),
    *_list_applications({"fix_gamma": False, "eps": 2e-5}, (5, 3, 4, 2), (3,)),
    *_list_applications({"axis": -1}, (5, 4, 3), ones(3)),
]
