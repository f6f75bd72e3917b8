from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import uniform, whole

CASES = [
    Case("_tofu_valid_cells", {"valid_thresh": 0.25}, [(5, 3, 4)], ()),
    Case("_tofu_make_loss_gradient", {"grad_scale": 3.0}, [(5, 3), whole(0, 9, 1)], (), double=(1,)),
    Case("_tofu_make_loss_gradient", {}, [(7,), uniform(0, 1, 1)], (), double=(1,)),
    Case("_tofu_scale", {"grad_scale": 0.25}, [(5, 3, 4)], ()),
]
