from tdl_ops.mxnet import DESCRIPTIONS
from tdl_ops.mxnet.case import SINGLE_PRECISION, Case
from tofu.tdl import interpret
from tofu.verification.numbers import single

LRN = {"nsize": 3, "alpha": 0.5}


def compute_lrn(inputs, outputs):
    """Return the expected outputs of LRN. The second output is None, because the library oneDNN does not write it."""
    expected, _ = interpret(DESCRIPTIONS["LRN"], LRN, inputs, [array.shape for array in outputs])
    return expected, None


def compute_lrn_gradient(inputs, outputs):
    """Return the expected gradient of LRN."""
    d_out, data, _ = inputs
    _, norm = interpret(DESCRIPTIONS["LRN"], LRN, [data], [data.shape] * 2)
    return interpret(DESCRIPTIONS["_backward_LRN"], LRN, [d_out, data, norm], [data.shape])


CASES = [
    Case("GroupNorm", {"num_groups": 3}, [(5, 6, 3, 2), (3,), (3,)]),
    Case("GroupNorm", {"num_groups": 2, "output_mean_var": True}, [(5, 6, 3), (2,), (2,)]),
    Case("GroupNorm", {"num_groups": 2, "eps": 0.01}, [(3, 4, 5), (2,), (2,)], None, SINGLE_PRECISION),
    Case("LRN", LRN, [single(2, 5, 4, 7)], relations={"LRN": compute_lrn, "_backward_LRN": compute_lrn_gradient}),
]
