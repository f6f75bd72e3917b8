from dataclasses import replace

from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu.verification.numbers import half, single, uniform

UPDATE = {"lr": 0.125, "wd": 0.25, "rescale_grad": 0.5, "clip_gradient": 0.25}
STATE = uniform(0.5, 1, 5, 7)
HALF, SINGLE = half(5, 7), single(5, 7)

CASES = [
    Case("sgd_update", UPDATE, [(5, 7), (5, 7)], wrt=()),
    Case("sgd_mom_update", {**UPDATE, "momentum": 0.5}, [(5, 7)] * 3, wrt=()),
    Case("nag_mom_update", {**UPDATE, "momentum": 0.5}, [(5, 7)] * 3, wrt=()),
    Case("signsgd_update", {"lr": 0.125, "wd": 0.25}, [(5, 7)] * 2, wrt=()),
    Case("signum_update", {**UPDATE, "momentum": 0.5, "wd_lh": 0.125}, [(5, 7)] * 3, wrt=()),
    Case("adam_update", UPDATE, [(5, 7), (5, 7), (5, 7), STATE], (), SINGLE_PRECISION),
    Case("rmsprop_update", UPDATE, [(5, 7), (5, 7), STATE], (), SINGLE_PRECISION),
    Case("rmspropalex_update", UPDATE, [(5, 7), (5, 7), STATE, uniform(0, 0.1, 5, 7), (5, 7)], (), SINGLE_PRECISION),
    Case("ftrl_update", UPDATE, [(5, 7), (5, 7), (5, 7), STATE], (), SINGLE_PRECISION),
    Case("mp_sgd_update", UPDATE, [HALF, HALF, SINGLE], wrt=()),
    Case("mp_sgd_mom_update", {**UPDATE, "momentum": 0.5}, [HALF, HALF, SINGLE, SINGLE], wrt=()),
    Case("mp_nag_mom_update", {**UPDATE, "momentum": 0.5}, [HALF, HALF, SINGLE, SINGLE], wrt=()),
    Case(
        "multi_lars",
        {"eta": 0.125, "eps": 0.5, "rescale_grad": 0.5},
        [replace(uniform(0.5, 1, 5), dtype="float32")] * 4,
        wrt=(),
    ),
    Case("multi_sum_sq", {"num_arrays": 2}, [(3, 4), (5,)], wrt=()),
    Case("all_finite", {}, [(3, 4)], wrt=()),
    Case("multi_all_finite", {"num_arrays": 2}, [single(3, 4), single(5)], wrt=()),
]
