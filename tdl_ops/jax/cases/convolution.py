from collections.abc import Sequence

from jax import lax

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import both


def convolve(stride=1, padding="SAME", dilation=1, groups=1):
    return both(
        lambda x, w: lax.conv_general_dilated(
            x,
            w,
            (stride, stride),
            padding,
            rhs_dilation=(dilation, dilation),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )
    )


def convolve_each(
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    groups: int = 1,
    batch_groups: int = 1,
):
    return both(
        lambda x, w: lax.conv_general_dilated(
            x,
            w,
            strides,
            padding,
            lhs_dilation,
            rhs_dilation,
            feature_group_count=groups,
            batch_group_count=batch_groups,
        )
    )


CASES = [
    PrimitiveCase("convolution", convolve(), (2, 6, 7, 4), (3, 3, 4, 5)),
    PrimitiveCase("convolution, stride", convolve(2), (2, 8, 8, 4), (3, 3, 4, 5)),
    PrimitiveCase("convolution, 1 x 1 stride", convolve(2), (2, 8, 8, 4), (1, 1, 4, 5)),
    PrimitiveCase("convolution, dilated", convolve(1, "SAME", 2), (2, 6, 6, 4), (3, 3, 4, 5)),
    PrimitiveCase("convolution, valid", convolve(1, "VALID"), (2, 7, 7, 4), (3, 3, 4, 5)),
    PrimitiveCase("convolution, groups", convolve(groups=2), (2, 6, 6, 4), (3, 3, 2, 6)),
    PrimitiveCase("convolution, depthwise", convolve(groups=4), (2, 6, 6, 4), (3, 3, 1, 4)),
    PrimitiveCase("convolution, groups, stride", convolve(2, groups=2), (2, 6, 6, 4), (3, 3, 2, 6)),
    PrimitiveCase(
        "convolution, stride and dilated input",
        convolve_each((2, 1), ((1, 2), (0, 1)), (1, 2), (1, 1)),
        (4, 3, 7, 6),
        (2, 3, 3, 2),
    ),
    PrimitiveCase(
        "convolution, stride of a dilated input", convolve_each((2,), ((1, 2),), (2,), (1,)), (4, 3, 8), (2, 3, 4)
    ),
    PrimitiveCase(
        "convolution, stride beyond dilation", convolve_each((4,), ((3, 2),), (2,), (1,)), (2, 2, 16), (2, 2, 5)
    ),
    PrimitiveCase(
        "convolution, dilation beyond stride", convolve_each((2,), ((1, 3),), (4,), (1,)), (2, 2, 6), (2, 2, 5)
    ),
    PrimitiveCase("convolution, all dilated", convolve_each((2,), ((2, 2),), (2,), (2,)), (2, 2, 8), (2, 2, 3)),
    PrimitiveCase(
        "convolution, stride and dilation apart",
        convolve_each((2, 1), ((2, 2), (1, 1)), (3, 1), (1, 1)),
        (2, 2, 3, 4),  # with longer tensors, a wrong split may be exact because parts start in phase
        (2, 2, 3, 3),
    ),
    PrimitiveCase("convolution, nothing meets", convolve_each((2,), ((1, 1),), (2,), (2,)), (2, 2, 6), (2, 2, 3)),
    PrimitiveCase(
        "convolution, cut", convolve_each((2, 1), ((-1, 2), (2, -1)), (1, 2), (2, 1)), (2, 2, 9, 6), (2, 2, 2, 3)
    ),
    PrimitiveCase("convolution, cut to nothing", convolve_each((1,), ((-3, -3),), (2,), (1,)), (2, 2, 6), (2, 2, 2)),
    PrimitiveCase(
        "convolution, groups, dilated",
        convolve_each((2, 1), ((1, 1), (1, 1)), (1, 2), (1, 1), 2),
        (2, 4, 8, 6),
        (4, 2, 3, 3),
    ),
    PrimitiveCase(
        "convolution, groups of the batch",
        convolve_each((1, 2), ((1, 1), (1, 1)), (2, 1), (1, 1), 1, 2),
        (4, 3, 6, 8),
        (4, 3, 3, 3),
    ),
    PrimitiveCase("convolution, no dimension", convolve_each((), (), (), ()), (4, 3), (2, 3)),
    PrimitiveCase(
        "convolution, four dimensions",
        convolve_each((1, 2, 1, 1), ((1, 1),) * 4, (1,) * 4, (1,) * 4),
        (2, 2, 3, 4, 2, 2),
        (2, 2, 3, 3, 2, 2),
    ),
    PrimitiveCase(
        "transposed convolution",
        both(lambda x, w: lax.conv_transpose(x, w, (2, 3), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))),
        (2, 4, 3, 4),
        (3, 5, 4, 2),
    ),
    PrimitiveCase(
        "transposed convolution, dilated kernel",
        both(lambda x, w: lax.conv_transpose(x, w, (2,), "VALID", rhs_dilation=(2,))),
        (2, 6, 4),
        (3, 4, 2),
    ),
]
