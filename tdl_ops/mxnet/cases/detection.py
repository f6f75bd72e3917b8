from tdl_ops.mxnet.case import Case
from tdl_ops.mxnet.cases.boxes import CORNERS
from tofu.verification.numbers import Fixed, single

ANCHORS = Fixed((CORNERS.values,), "float32")
LABELS = Fixed(
    (
        ((0, 0.1, 0.1, 0.5, 0.5), (1, 0.5, 0.5, 0.9, 0.8)),
        ((1, 0.1, 0.2, 0.6, 0.5), (-1, -1, -1, -1, -1)),
        ((0, 0.2, 0.2, 0.6, 0.6), (-1, -1, -1, -1, -1)),
    ),
    "float32",
)
CASES = [
    Case("_contrib_MultiBoxPrior", {"sizes": (0.5, 0.3), "ratios": (1, 2)}, [single(2, 3, 2, 3)]),
    Case("_contrib_MultiBoxPrior", {"sizes": (0.75,), "clip": True, "offsets": (0.25, 0.5)}, [single(2, 3, 2, 3)]),
    Case("_contrib_MultiBoxTarget", {}, [ANCHORS, LABELS, single(3, 4, 3)]),
    Case("_contrib_MultiBoxDetection", {}, [single(3, 4, 3), single(3, 12), ANCHORS]),
]
