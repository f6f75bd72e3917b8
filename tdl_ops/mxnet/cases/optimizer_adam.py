from dataclasses import replace

from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu.verification.numbers import half, single, uniform

HALF, SINGLE, STATE = half(5, 7), single(5, 7), uniform(0.5, 1, 5, 7)
SINGLE_STATE, SCALE = replace(STATE, dtype="float32"), replace(uniform(0.5, 1, 1), dtype="float32")
DECAY = {"wd": 0.25, "clip_gradient": 0.25}
PHASE_ONE = {**DECAY, "t": 3, "rescale_grad": 0.5}

CASES = [
    Case("_adamw_update", {**DECAY, "lr": 0.125, "eta": 0.5}, [SINGLE, SINGLE, SINGLE, SINGLE_STATE, SCALE], wrt=()),
    Case(
        "_mp_adamw_update",
        {**DECAY, "lr": 0.125, "eta": 0.5},
        [HALF, HALF, SINGLE, SINGLE_STATE, SINGLE, SCALE],
        wrt=(),
    ),
    Case("lamb_update_phase1", PHASE_ONE, [(5, 7), (5, 7), (5, 7), STATE], (), 1e-5),
    Case("lamb_update_phase1", {**PHASE_ONE, "bias_correction": False}, [(5, 7)] * 3 + [STATE], (), 1e-5),
    Case("mp_lamb_update_phase1", PHASE_ONE, [HALF, HALF, SINGLE, SINGLE_STATE, SINGLE], wrt=()),
    Case("lamb_update_phase2", {"lr": 0.125}, [(5, 7), (5, 7), uniform(1, 2, 1), uniform(1, 2, 1)], wrt=()),
    Case(
        "lamb_update_phase2",
        {"lr": 0.125, "lower_bound": 0.25, "upper_bound": 0.5},
        [(5, 7), (5, 7), uniform(1, 2, 1), uniform(1, 2, 1)],
        wrt=(),
    ),
    Case("mp_lamb_update_phase2", {"lr": 0.125}, [HALF, SINGLE, SCALE, SCALE, SINGLE], wrt=()),
    Case(
        "ftml_update", {"lr": 0.125, "t": 3, "wd": 0.25}, [(5, 7), (5, 7), STATE, STATE, (5, 7)], (), SINGLE_PRECISION
    ),
]
