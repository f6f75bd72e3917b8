from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import ones, uniform

POSITIVE = uniform(0.5, 2, 3)

CASES = [
    *(
        case
        for axis, shape in ((1, (5, 3, 4, 2)), (-1, (5, 4, 3)), (0, (3, 7)))
        for case in (
            Case("_tofu_batch_norm_sum", {"axis": axis}, [shape], ()),
            Case("_tofu_batch_norm_squares", {"axis": axis, "count": 40}, [shape, (3,)], (), double=(1,)),
            Case("_tofu_batch_norm_backward_sums", {"axis": axis}, [shape, shape, (3,), POSITIVE], ()),
        )
    ),
    *(
        case
        for attributes in ({"fix_gamma": False, "eps": 2e-5}, {"axis": -1})
        for shape in ((5, 4, 3) if "axis" in attributes else (5, 3, 4, 2),)
        for gamma in ((3,) if "eps" in attributes else ones(3),)
        for case in (
            Case(
                "_tofu_batch_norm_apply",
                {**attributes, "count": 40},
                [shape, gamma, (3,), (3,), POSITIVE],
                (),
                double=(3, 4),
            ),
            Case("_tofu_batch_norm_global", attributes, [shape, gamma, (3,), (3,), POSITIVE], ()),
            Case(
                "_tofu_batch_norm_backward_apply",
                {**attributes, "count": 40},
                [shape, shape, (3,), POSITIVE, gamma, (3,), POSITIVE, (3,), (3,)],
                (),
                double=(7, 8),
            ),
        )
    ),
]
