from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu.verification.numbers import single

AFFINE = {"target_shape": (4, 5), "transform_type": "affine"}

CASES = [
    Case("GridGenerator", AFFINE, [single(5, 6)]),
    Case("GridGenerator", {"transform_type": "warp"}, [single(5, 2, 4, 3)]),
    Case("BilinearSampler", {}, [(3, 5, 4, 3), (3, 2, 5, 4)]),
    Case("SpatialTransformer", {**AFFINE, "sampler_type": "bilinear"}, [(3, 5, 4, 3), (3, 6)], None, SINGLE_PRECISION),
]
