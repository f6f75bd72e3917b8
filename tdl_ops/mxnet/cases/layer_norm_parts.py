from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import uniform

CASES = [
    case
    for axis, shape, extent, lines in ((-1, (4, 3, 5), 5, (4, 3, 1)), (1, (4, 5, 3), 5, (4, 1, 3)))
    for attributes in ({"axis": axis},)
    for count in ({"count": 8},)
    for std in (uniform(0.5, 2, *lines),)
    for case in (
        Case("_tofu_layer_norm_sum", attributes, [shape], ()),
        Case("_tofu_layer_norm_squares", {**attributes, **count}, [shape, lines], (), double=(1,)),
        Case(
            "_tofu_layer_norm_apply",
            {**attributes, **count},
            [shape, (extent,), (extent,), lines, std],
            (),
            double=(3, 4),
        ),
        Case("_tofu_layer_norm_backward_sums", attributes, [shape, shape, (extent,), lines, std], ()),
        Case(
            "_tofu_layer_norm_backward_apply",
            {**attributes, **count},
            [shape, shape, (extent,), lines, std, lines, lines],
            (),
            double=(5, 6),
        ),
    )
]
