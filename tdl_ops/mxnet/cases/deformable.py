from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import uniform

STRIDED = {"kernel": (3, 2), "num_filter": 7, "stride": (2, 1), "dilate": (1, 2), "no_bias": True}
CUT = {**STRIDED, "pad": (-3, 2)}
PADDED = {"kernel": (3, 3), "num_filter": 5, "pad": (1, 1)}
PART, GRADIENT = "_tofu_deformable_convolution", "_tofu_deformable_convolution_backward"

CASES = [
    Case("_contrib_DeformableConvolution", PADDED, [(4, 2, 6, 7), uniform(-2, 2, 4, 18, 6, 7), (5, 2, 3, 3), (5,)]),
    Case("_contrib_DeformableConvolution", STRIDED, [(5, 4, 9, 8), uniform(-1, 1, 5, 12, 4, 6), (7, 4, 3, 2)]),
    Case(PART, PADDED, [(4, 2, 6, 7), uniform(-2, 2, 4, 18, 6, 7), (5, 2, 3, 3), (5,)], ()),
    Case(PART, CUT, [(4, 3, 9, 8), uniform(-2, 2, 4, 12, 5, 6), (7, 3, 3, 2)], ()),
    Case(GRADIENT, PADDED, [(4, 5, 6, 7), (4, 2, 6, 7), uniform(-2, 2, 4, 18, 6, 7), (5, 2, 3, 3)], ()),
    Case(GRADIENT, CUT, [(4, 7, 5, 6), (4, 3, 9, 8), uniform(-2, 2, 4, 12, 5, 6), (7, 3, 3, 2)], ()),
]
