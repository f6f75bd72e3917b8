"""The layers of detectors."""

from __future__ import annotations

from dataclasses import replace

from tofu.verify.case import Case, Fixed, single
from tofu.verify.cases.boxes import CORNERS

ANCHORS = Fixed((CORNERS.values,), "float32")
LABELS = Fixed(
    (
        ((0, 0.1, 0.1, 0.5, 0.5), (1, 0.5, 0.5, 0.9, 0.8)),
        ((1, 0.1, 0.2, 0.6, 0.5), (-1, -1, -1, -1, -1)),
        ((0, 0.2, 0.2, 0.6, 0.6), (-1, -1, -1, -1, -1)),
    ),
    "float32",
)
IMAGE = Fixed(((64.0, 64.0, 1.0),), "float32")
PROPOSAL = {"rpn_post_nms_top_n": 5, "scales": (4,), "ratios": (1,)}

CASES = [
    Case("_contrib_MultiBoxPrior", {"sizes": (0.5, 0.3), "ratios": (1, 2)}, [single(2, 3, 2, 3)]),
    Case("_contrib_MultiBoxPrior", {"sizes": (0.75,), "clip": True, "offsets": (0.25, 0.5)}, [single(2, 3, 2, 3)]),
    Case("_contrib_MultiBoxTarget", {}, [ANCHORS, LABELS, single(3, 4, 3)]),
    Case("_contrib_MultiBoxDetection", {}, [single(3, 4, 3), single(3, 12), ANCHORS]),
    Case("_contrib_Proposal", PROPOSAL, [single(1, 2, 4, 4), single(1, 4, 4, 4), IMAGE]),
    Case(
        "_contrib_MultiProposal",
        PROPOSAL,
        [single(2, 2, 4, 4), single(2, 4, 4, 4), replace(IMAGE, values=IMAGE.values * 2)],
    ),
]
