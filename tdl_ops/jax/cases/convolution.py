from jax import lax

from tdl_ops.jax.case import PrimitiveCase
from tdl_ops.jax.cases.building import both

IMAGES = ("NHWC", "HWIO", "NHWC")


def convolve(stride=1, padding="SAME", dilation=1, groups=1):
    options = (stride, stride), padding, (1, 1), (dilation, dilation), IMAGES, groups
    return both(lambda x, w: lax.conv_general_dilated(x, w, *options))


def convolve_each(strides, padding, lhs_dilation, rhs_dilation, groups=1, batch_groups=1):
    options = strides, padding, lhs_dilation, rhs_dilation, None, groups, batch_groups
    return both(lambda x, w: lax.conv_general_dilated(x, w, *options))


CONVOLUTIONS = [  # name, options of `convolve`, shapes
    ("", (), (2, 6, 7, 4), (3, 3, 4, 5)),
    (", stride", (2,), (2, 8, 8, 4), (3, 3, 4, 5)),
    (", 1 x 1 stride", (2,), (2, 8, 8, 4), (1, 1, 4, 5)),
    (", dilated", (1, "SAME", 2), (2, 6, 6, 4), (3, 3, 4, 5)),
    (", valid", (1, "VALID"), (2, 7, 7, 4), (3, 3, 4, 5)),
    (", groups", (1, "SAME", 1, 2), (2, 6, 6, 4), (3, 3, 2, 6)),
    (", depthwise", (1, "SAME", 1, 4), (2, 6, 6, 4), (3, 3, 1, 4)),
    (", groups, stride", (2, "SAME", 1, 2), (2, 6, 6, 4), (3, 3, 2, 6)),
]
DILATED = [  # name, options of `convolve_each`, shapes
    ("stride and dilated input", ((2, 1), ((1, 2), (0, 1)), (1, 2), (1, 1)), (4, 3, 7, 6), (2, 3, 3, 2)),
    ("stride of a dilated input", ((2,), ((1, 2),), (2,), (1,)), (4, 3, 8), (2, 3, 4)),
    ("stride beyond dilation", ((4,), ((3, 2),), (2,), (1,)), (2, 2, 16), (2, 2, 5)),
    ("dilation beyond stride", ((2,), ((1, 3),), (4,), (1,)), (2, 2, 6), (2, 2, 5)),
    ("all dilated", ((2,), ((2, 2),), (2,), (2,)), (2, 2, 8), (2, 2, 3)),
    # With longer tensors, a wrong split may be exact because parts start in phase.
    ("stride and dilation apart", ((2, 1), ((2, 2), (1, 1)), (3, 1), (1, 1)), (2, 2, 3, 4), (2, 2, 3, 3)),
    ("nothing meets", ((2,), ((1, 1),), (2,), (2,)), (2, 2, 6), (2, 2, 3)),
    ("cut", ((2, 1), ((-1, 2), (2, -1)), (1, 2), (2, 1)), (2, 2, 9, 6), (2, 2, 2, 3)),
    ("cut to nothing", ((1,), ((-3, -3),), (2,), (1,)), (2, 2, 6), (2, 2, 2)),
    ("groups, dilated", ((2, 1), ((1, 1), (1, 1)), (1, 2), (1, 1), 2), (2, 4, 8, 6), (4, 2, 3, 3)),
    ("groups of the batch", ((1, 2), ((1, 1), (1, 1)), (2, 1), (1, 1), 1, 2), (4, 3, 6, 8), (4, 3, 3, 3)),
    ("no dimension", ((), (), (), ()), (4, 3), (2, 3)),
    ("four dimensions", ((1, 2, 1, 1), ((1, 1),) * 4, (1,) * 4, (1,) * 4), (2, 2, 3, 4, 2, 2), (2, 2, 3, 3, 2, 2)),
]

CASES = [
    *(PrimitiveCase(f"convolution{name}", convolve(*options), *shapes) for name, options, *shapes in CONVOLUTIONS),
    *(PrimitiveCase(f"convolution, {name}", convolve_each(*options), *shapes) for name, options, *shapes in DILATED),
    PrimitiveCase(
        "transposed convolution",
        both(lambda x, w: lax.conv_transpose(x, w, (2, 3), "SAME", dimension_numbers=IMAGES)),
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
