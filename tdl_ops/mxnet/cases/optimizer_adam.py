from dataclasses import replace

from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu.verification.numbers import half, single, uniform

DATA, STATE, NORM = (5, 7), uniform(0.5, 1, 5, 7), uniform(1, 2, 1)
HALF, SINGLE = half(5, 7), single(5, 7)
SINGLE_STATE, SCALE = (replace(numbers, dtype="float32") for numbers in (STATE, uniform(0.5, 1, 1)))
DECAY = {"wd": 0.25, "clip_gradient": 0.25}
ADAM = {**DECAY, "lr": 0.125, "eta": 0.5}
PHASE_ONE = {**DECAY, "t": 3, "rescale_grad": 0.5}
BOUNDS = {"lower_bound": 0.25, "upper_bound": 0.5}
FTML = {"lr": 0.125, "t": 3, "wd": 0.25}

CASES = [
    Case("_adamw_update", ADAM, [SINGLE, SINGLE, SINGLE, SINGLE_STATE, SCALE], wrt=()),
    Case("_mp_adamw_update", ADAM, [HALF, HALF, SINGLE, SINGLE_STATE, SINGLE, SCALE], wrt=()),
    *(
        Case("lamb_update_phase1", {**PHASE_ONE, **corrected}, [DATA] * 3 + [STATE], (), 1e-5)
        for corrected in ({}, {"bias_correction": False})
    ),
    Case("mp_lamb_update_phase1", PHASE_ONE, [HALF, HALF, SINGLE, SINGLE_STATE, SINGLE], wrt=()),
    *(Case("lamb_update_phase2", {"lr": 0.125, **own}, [DATA, DATA, NORM, NORM], wrt=()) for own in ({}, BOUNDS)),
    Case("mp_lamb_update_phase2", {"lr": 0.125}, [HALF, SINGLE, SCALE, SCALE, SINGLE], wrt=()),
    Case("ftml_update", FTML, [DATA, DATA, STATE, STATE, DATA], (), SINGLE_PRECISION),
]
