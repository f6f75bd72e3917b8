from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import Fixed, single

IMAGE = (64.0, 64.0, 1.0)
SMALLER = (50.0, 36.0, 0.5)
PROPOSAL = {"rpn_post_nms_top_n": 5, "scales": (4,), "ratios": (1,)}
SEVERAL = {"rpn_post_nms_top_n": 12, "scales": (1, 2), "ratios": (0.5, 1, 2), "rpn_min_size": 12, "output_score": True}
ONE = (single(1, 12, 4, 3), single(1, 24, 4, 3), Fixed((SMALLER,), "float32"))
PLAIN = (single(2, 2, 4, 4), single(2, 4, 4, 4), Fixed((IMAGE, IMAGE), "float32"))
TWO = (single(2, 12, 4, 4), single(2, 24, 4, 4), Fixed((IMAGE, SMALLER), "float32"))
FOUR = (single(4, 12, 4, 4), single(4, 24, 4, 4), Fixed((IMAGE, SMALLER, SMALLER, IMAGE), "float32"))

CASES = [
    Case("_contrib_Proposal", PROPOSAL, [single(1, 2, 4, 4), single(1, 4, 4, 4), Fixed((IMAGE,), "float32")]),
    Case("_contrib_Proposal", {**SEVERAL, "threshold": 0.4}, ONE),
    Case("_contrib_MultiProposal", PROPOSAL, PLAIN),
    Case("_contrib_MultiProposal", {**SEVERAL, "rpn_pre_nms_top_n": 30}, TWO),
    Case("_tofu_multi_proposal", SEVERAL, FOUR, ()),
    Case("_contrib_MultiProposal", {**SEVERAL, "iou_loss": True, "feature_stride": 20}, TWO),
]
