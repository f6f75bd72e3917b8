from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import Fixed

REGIONS = Fixed(((0, 0, 0, 3, 3), (1, 1, 1, 4, 4), (1, 0, 2, 4, 3), (0, 3, 3, 9, 9), (0, 2.6, 1.2, 3.3, 2.8)))
ROTATED = Fixed(((0, 2, 2, 3, 3, 30), (1, 2, 3, 4, 2, -20), (1, 3, 2, 2, 2, 90)))

CASES = [
    Case("ROIPooling", {"pooled_size": (2, 3), "spatial_scale": 1.0}, [(2, 3, 5, 6), REGIONS]),
    Case("ROIPooling", {"pooled_size": (2, 2), "spatial_scale": 0.5}, [(2, 3, 5, 5), REGIONS]),
    Case(
        "_contrib_ROIAlign", {"pooled_size": (2, 3), "spatial_scale": 1.0, "sample_ratio": 2}, [(2, 3, 5, 6), REGIONS]
    ),
    Case("_contrib_PSROIPooling", {"pooled_size": 2, "output_dim": 3, "spatial_scale": 1.0}, [(2, 12, 5, 6), REGIONS]),
    Case("_contrib_PSROIPooling", {"pooled_size": 3, "output_dim": 2, "spatial_scale": 0.5}, [(2, 18, 5, 5), REGIONS]),
    Case("_contrib_RROIAlign", {"pooled_size": (2, 3), "spatial_scale": 1.0}, [(2, 3, 5, 6), ROTATED], wrt=()),
]
