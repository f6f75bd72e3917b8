from dataclasses import replace

from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu.verification.numbers import half, single, uniform

UPDATE = {"lr": 0.125, "wd": 0.25, "rescale_grad": 0.5, "clip_gradient": 0.25}
MOMENTUM = {**UPDATE, "momentum": 0.5}
LARS = {"eta": 0.125, "eps": 0.5, "rescale_grad": 0.5}
DATA, STATE = (5, 7), uniform(0.5, 1, 5, 7)
HALF, SINGLE = half(5, 7), single(5, 7)

CASES = [
    Case("sgd_update", UPDATE, [DATA] * 2, wrt=()),
    *(Case(f"{name}_mom_update", MOMENTUM, [DATA] * 3, wrt=()) for name in ("sgd", "nag")),
    Case("signsgd_update", {"lr": 0.125, "wd": 0.25}, [DATA] * 2, wrt=()),
    Case("signum_update", {**MOMENTUM, "wd_lh": 0.125}, [DATA] * 3, wrt=()),
    Case("rmsprop_update", UPDATE, [DATA, DATA, STATE], (), SINGLE_PRECISION),
    *(Case(f"{name}_update", UPDATE, [DATA, DATA, DATA, STATE], (), SINGLE_PRECISION) for name in ("adam", "ftrl")),
    Case("rmspropalex_update", UPDATE, [DATA, DATA, STATE, uniform(0, 0.1, 5, 7), DATA], (), SINGLE_PRECISION),
    Case("mp_sgd_update", UPDATE, [HALF, HALF, SINGLE], wrt=()),
    *(Case(f"mp_{name}_mom_update", MOMENTUM, [HALF, HALF, SINGLE, SINGLE], wrt=()) for name in ("sgd", "nag")),
    Case("multi_lars", LARS, [replace(uniform(0.5, 1, 5), dtype="float32")] * 4, wrt=()),
    Case("multi_sum_sq", {"num_arrays": 2}, [(3, 4), (5,)], wrt=()),
    Case("all_finite", {}, [(3, 4)], wrt=()),
    Case("multi_all_finite", {"num_arrays": 2}, [single(3, 4), single(5)], wrt=()),
]
