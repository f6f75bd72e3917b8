from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu.verification.numbers import Numbers

CASES = [
    Case("_image_normalize", {"mean": "(0.25, 0.5, 1)", "std": "(0.5, 2, 4)"}, [(5, 3, 7, 6)]),
    Case("_image_normalize", {"mean": "(0.25,)", "std": "(0.5,)"}, [(3, 7, 6)], None, SINGLE_PRECISION),
    *(
        Case("_image_to_tensor", {}, [Numbers(0, 256, shape, "uint8", is_whole=True)], (), SINGLE_PRECISION)
        for shape in ((5, 7, 6, 3), (7, 6, 3))
    ),
]
