"""One case for each operator and interesting set of attributes: what tests/tdl_ops verifies against MXNet's kernels.

Sizes are odd and small, so that parts are uneven. The backward operators come with the operator whose gradient they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tofu.verify import TOLERANCE

RANDOM = np.random.RandomState(11)

# MXNet holds some attributes (grad_scale, eps, lr, a scalar's share) in single precision, whatever the type of the data.
SINGLE_PRECISION = 1e-6


@dataclass(frozen=True)
class Case:
    """An operator at one signature. `inputs` are shapes, for numbers between -1 and 1, or arrays; those at the positions
    `double` are in double precision, whatever the others.
    """

    op: str
    attributes: Mapping[str, Any]
    inputs: Sequence[Any]
    wrt: tuple[int, ...] | None = None
    description_tolerance: float = TOLERANCE
    relations: Mapping[str, Any] = field(default_factory=dict)
    double: tuple[int, ...] = ()

    def __str__(self) -> str:
        attributes = "-".join(f"{name}={value}" for name, value in self.attributes.items())
        shapes = "x".join(",".join(map(str, np.shape(i) if isinstance(i, np.ndarray) else i)) for i in self.inputs)
        return f"{self.op}-{attributes}-{shapes}".replace(" ", "")


def uniform(low: float, high: float, *shape: int) -> np.ndarray:
    """Numbers between low and high."""
    return RANDOM.uniform(low, high, shape)


def single(*shape: int) -> np.ndarray:
    """Numbers between -1 and 1 in float32, the only type that MXNet's kernel has."""
    return uniform(-1, 1, *shape).astype("float32")


def labels(classes: int, *shape: int) -> np.ndarray:
    """Whole numbers from 0 to classes - 1."""
    return RANDOM.randint(0, classes, shape).astype(float)


def rounded(*shape: int) -> np.ndarray:
    """Numbers of which many are equal."""
    return RANDOM.randint(-2, 3, shape).astype(float)


MATMUL = [
    Case("FullyConnected", {"num_hidden": 5}, [(5, 7), (5, 7), (5,)]),
    Case("FullyConnected", {"num_hidden": 5, "no_bias": True}, [(5, 3, 7), (5, 21)]),
    Case("FullyConnected", {"num_hidden": 7}, [(5, 3, 2, 3), (7, 18), (7,)]),
    Case("FullyConnected", {"num_hidden": 5, "flatten": False}, [(5, 3, 7), (5, 7), (5,)]),
    Case("FullyConnected", {"num_hidden": 5, "flatten": False, "no_bias": True}, [(3, 7), (5, 7)]),
    *(
        Case("dot", {"transpose_a": a, "transpose_b": b}, [(5, 3) if a else (3, 5), (7, 5) if b else (5, 7)])
        for a in (False, True)
        for b in (False, True)
    ),
    *(
        Case(
            "batch_dot",
            {"transpose_a": a, "transpose_b": b},
            [(3, 5, 4) if a else (3, 4, 5), (3, 7, 5) if b else (3, 5, 7)],
        )
        for a in (False, True)
        for b in (False, True)
    ),
]

CONVOLUTION = [
    Case("Convolution", {"kernel": (3, 3), "num_filter": 5, "pad": (1, 1)}, [(3, 5, 7, 5), (5, 5, 3, 3), (5,)]),
    Case("Convolution", {"kernel": (1, 1), "num_filter": 5, "no_bias": True}, [(3, 3, 5, 5), (5, 3, 1, 1)]),
    Case(
        "Convolution",
        {"kernel": (1, 1), "num_filter": 3, "stride": (2, 2), "no_bias": True},
        [(3, 2, 7, 6), (3, 2, 1, 1)],
    ),
    Case(
        "Convolution",
        {"kernel": (3, 2), "num_filter": 3, "stride": (2, 1), "pad": (2, 0)},
        [(3, 3, 9, 5), (3, 3, 3, 2), (3,)],
    ),
    Case(
        "Convolution",
        {"kernel": (3, 3), "num_filter": 3, "dilate": (2, 2), "pad": (2, 2)},
        [(3, 2, 7, 7), (3, 2, 3, 3), (3,)],
    ),
    Case(
        "Convolution",
        {"kernel": (3, 3), "num_filter": 6, "num_group": 3, "pad": (1, 1)},
        [(3, 6, 5, 5), (6, 2, 3, 3), (6,)],
    ),
    Case(
        "Convolution",
        {"kernel": (3, 3), "num_filter": 5, "num_group": 5, "no_bias": True},
        [(3, 5, 5, 5), (5, 1, 3, 3)],
    ),
    Case("Convolution", {"kernel": (3,), "num_filter": 5, "stride": (2,), "pad": (1,)}, [(3, 5, 9), (5, 5, 3), (5,)]),
    Case(
        "Convolution",
        {"kernel": (2, 3, 2), "num_filter": 3, "pad": (0, 1, 1)},
        [(2, 3, 4, 5, 4), (3, 3, 2, 3, 2), (3,)],
    ),
]

POOLING = [
    Case("Pooling", {"kernel": (2, 2), "stride": (2, 2), "pool_type": "max"}, [(3, 5, 6, 6)]),
    Case("Pooling", {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "max"}, [(3, 5, 7, 7)]),
    Case("Pooling", {"kernel": (3,), "stride": (2,), "pool_type": "max", "pooling_convention": "full"}, [(3, 5, 8)]),
    Case("Pooling", {"kernel": (2, 2, 2), "stride": (2, 2, 2), "pool_type": "max"}, [(2, 3, 4, 4, 4)]),
    Case("Pooling", {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg"}, [(3, 5, 7, 7)]),
    Case(
        "Pooling",
        {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg", "count_include_pad": False},
        [(3, 5, 7, 7)],
    ),
    Case(
        "Pooling",
        {"kernel": (3, 3), "stride": (2, 2), "pool_type": "avg", "pooling_convention": "full"},
        [(3, 5, 8, 8)],
    ),
    Case("Pooling", {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "sum"}, [(3, 5, 7, 7)]),
    *(
        Case(
            "Pooling",
            {"kernel": (2, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "lp", "p_value": p},
            [(3, 5, 6, 7)],
        )
        for p in (1, 2, 3)
    ),
    *(Case("Pooling", {"global_pool": True, "pool_type": kind}, [(3, 5, 4, 5)]) for kind in ("max", "avg", "sum")),
]

ACTIVATION = [
    *(Case("Activation", {"act_type": kind}, [(5, 7)]) for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")),
    *(
        Case("LeakyReLU", {"act_type": kind}, [(5, 3, 7)], None, SINGLE_PRECISION)
        for kind in ("leaky", "elu", "selu", "gelu")
    ),
    Case("LeakyReLU", {"act_type": "leaky", "slope": 0.125}, [(5, 7)], None, SINGLE_PRECISION),
    Case("LeakyReLU", {"act_type": "prelu"}, [(5, 3, 7), (3,)], None, SINGLE_PRECISION),
    Case("LeakyReLU", {"act_type": "prelu"}, [(5, 3), (1,)], None, SINGLE_PRECISION),
]

ABOVE_ONE = uniform(1.2, 3, 5, 7)
POSITIVE = uniform(0.3, 3, 5, 7)
UNARY = [
    *(
        Case(op, {}, [(5, 7)])
        for op in [
            "abs",
            "arccos",
            "arcsin",
            "arcsinh",
            "arctan",
            "arctanh",
            "cbrt",
            "ceil",
            "cos",
            "cosh",
            "exp",
            "expm1",
            "fix",
            "floor",
            "negative",
            "relu",
            "rint",
            "round",
            "sigmoid",
            "sign",
            "sin",
            "sinh",
            "softsign",
            "square",
            "tan",
            "tanh",
            "trunc",
            "_copy",
            "BlockGrad",
            "make_loss",
            "zeros_like",
            "ones_like",
        ]
    ),
    *(Case(op, {}, [POSITIVE]) for op in ["log", "log10", "log1p", "log2", "rcbrt", "reciprocal", "rsqrt", "sqrt"]),
    *(Case(op, {}, [(5, 7)], None, SINGLE_PRECISION) for op in ["degrees", "erf", "erfinv", "hard_sigmoid", "radians"]),
    *(Case(op, {}, [POSITIVE], None, SINGLE_PRECISION) for op in ("gamma", "gammaln")),
    Case("arccosh", {}, [ABOVE_ONE]),
    Case("logical_not", {}, [rounded(5, 7)]),
    Case("Cast", {"dtype": "float64"}, [(5, 7)]),
    Case("amp_cast", {"dtype": "float32"}, [uniform(-1, 1, 5, 7).astype("float32")]),
    Case("clip", {"a_min": -0.5, "a_max": 0.25}, [(5, 7)]),
    Case("smooth_l1", {"scalar": 2.0}, [(5, 7)]),
]

SCALAR = [
    *(
        Case(f"_{name}_scalar", {"scalar": 2.0}, [POSITIVE])
        for name in [
            "plus",
            "minus",
            "rminus",
            "mul",
            "div",
            "rdiv",
            "mod",
            "rmod",
            "power",
            "rpower",
            "maximum",
            "minimum",
            "hypot",
        ]
    ),
    *(
        Case(f"_{name}_scalar", {"scalar": 1.0}, [rounded(5, 7)])
        for name in [
            "equal",
            "not_equal",
            "greater",
            "greater_equal",
            "lesser",
            "lesser_equal",
            "logical_and",
            "logical_or",
            "logical_xor",
        ]
    ),
]

COMPARISONS = [
    "equal",
    "not_equal",
    "greater",
    "greater_equal",
    "lesser",
    "lesser_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
]
BINARY = [
    *(Case(f"elemwise_{name}", {}, [(5, 7), uniform(0.3, 1, 5, 7)]) for name in ["add", "sub", "mul", "div"]),
    *(
        Case(f"_{name}", {}, [POSITIVE, uniform(0.3, 2, 5, 7)])
        for name in ["mod", "power", "maximum", "minimum", "hypot"]
    ),
    *(Case(f"_{name}", {}, [rounded(5, 7), rounded(5, 7)]) for name in COMPARISONS),
    Case("_grad_add", {}, [(5, 7), (5, 7)], wrt=()),
    Case("add_n", {"num_args": 3}, [(5, 7), (5, 7), (5, 7)]),
    Case("where", {}, [rounded(5, 7), (5, 7), (5, 7)]),
    Case("where", {}, [rounded(5), (5, 7), (5, 7)]),
]

BROADCAST = [
    *(Case(f"broadcast_{name}", {}, [(5, 1, 7), uniform(0.3, 1, 1, 3, 7)]) for name in ["add", "sub", "mul", "div"]),
    *(
        Case(f"broadcast_{name}", {}, [uniform(0.3, 3, 5, 3), uniform(0.3, 2, 5, 1)])
        for name in ["mod", "power", "maximum", "minimum", "hypot"]
    ),
    *(Case(f"broadcast_{name}", {}, [rounded(5, 7), rounded(1, 7)]) for name in COMPARISONS),
    Case("broadcast_axis", {"axis": 1, "size": 7}, [(5, 1, 3)]),
    Case("broadcast_axis", {"axis": (0, 2), "size": (5, 4)}, [(1, 3, 1)]),
    Case("broadcast_to", {"shape": (5, 7)}, [(5, 1)]),
    Case("broadcast_like", {}, [(5, 1), (5, 7)]),
]

REDUCTION = [
    *(
        Case(op, attributes, [uniform(0.5, 1.5, 5, 3, 7)])
        for op in ("sum", "mean", "prod", "nansum", "nanprod", "max", "min")
        for attributes in ({}, {"axis": (1,)}, {"axis": (0, -1), "keepdims": True}, {"axis": 1, "exclude": True})
    ),
    *(Case("norm", {"ord": order, "axis": 1}, [(5, 3, 7)]) for order in (1, 2)),
    Case("norm", {}, [(5, 7)]),
]

SOFTMAX = [
    *(
        Case(op, attributes, [(5, 3, 7)])
        for op in ("softmax", "softmin", "log_softmax")
        for attributes in ({}, {"axis": 1}, {"temperature": 2.0})
    ),
    *(Case("SoftmaxActivation", {"mode": mode}, [single(5, 3, 7)]) for mode in ("instance", "channel")),
    Case("_contrib_div_sqrt_dim", {}, [(5, 7)]),
]

LOSS = [
    Case("SoftmaxOutput", {}, [(5, 7), labels(7, 5)]),
    Case(
        "SoftmaxOutput", {"normalization": "batch", "grad_scale": 0.5}, [(5, 7), labels(7, 5)], None, SINGLE_PRECISION
    ),
    Case(
        "SoftmaxOutput",
        {"normalization": "valid", "use_ignore": True, "ignore_label": 1},
        [(5, 3), labels(3, 5)],
        None,
        SINGLE_PRECISION,
    ),
    Case(
        "SoftmaxOutput", {"normalization": "valid", "ignore_label": 1}, [(5, 3), labels(3, 5)], None, SINGLE_PRECISION
    ),
    Case("SoftmaxOutput", {"use_ignore": True, "ignore_label": 0}, [(5, 3), labels(3, 5)]),
    Case("SoftmaxOutput", {"smooth_alpha": 0.1}, [(5, 7), labels(7, 5)], None, SINGLE_PRECISION),
    Case("SoftmaxOutput", {"multi_output": True}, [(5, 7, 3), labels(7, 5, 3)], None, SINGLE_PRECISION),
    Case("SoftmaxOutput", {"multi_output": True}, [(5, 4, 3, 2), labels(4, 5, 3, 2)], None, SINGLE_PRECISION),
    Case(
        "SoftmaxOutput",
        {"multi_output": True, "normalization": "batch"},
        [(5, 4, 3, 2), labels(4, 5, 6)],
        None,
        SINGLE_PRECISION,
    ),
    Case(
        "SoftmaxOutput",
        {"multi_output": True, "normalization": "valid", "use_ignore": True, "ignore_label": 0},
        [(5, 7, 3), labels(7, 5, 3)],
        None,
        SINGLE_PRECISION,
    ),
    Case(
        "SoftmaxOutput",
        {"preserve_shape": True, "normalization": "batch"},
        [(5, 3, 7), labels(7, 5, 3)],
        None,
        SINGLE_PRECISION,
    ),
    Case("SoftmaxOutput", {"grad_scale": 2.0}, [(5, 7), uniform(0, 1, 5, 7)]),
    Case("SoftmaxOutput", {"out_grad": True}, [(5, 7), labels(7, 5)]),
    *(
        Case(f"{name}RegressionOutput", {"grad_scale": 2.0}, [(5, 7, 3), (5, 7, 3)], None, SINGLE_PRECISION)
        for name in ("Linear", "Logistic", "MAE")
    ),
    Case("LinearRegressionOutput", {}, [(5, 1), (5,)]),
    Case("MakeLoss", {"grad_scale": 2.0}, [(5, 7)]),
    Case("softmax_cross_entropy", {}, [(5, 7), labels(7, 5)], wrt=(0,)),
    Case("MakeLoss", {"normalization": "batch"}, [(5, 7)], None, SINGLE_PRECISION),
]

DRAWN = {
    "Dropout": lambda inputs, outputs: [inputs[0] * outputs[1], outputs[1]],
    "_backward_Dropout": lambda inputs, outputs: [inputs[0] * inputs[1]],
}
DROPOUT = [
    Case("Dropout", {"p": 0.5}, [(5, 3, 7)], relations=DRAWN),
    Case("Dropout", {"p": 0.25, "mode": "always"}, [(5, 7)], relations=DRAWN),
    Case("Dropout", {"p": 0.5, "axes": (1,)}, [(5, 3, 7)], relations=DRAWN),
    Case("Dropout", {"p": 0.0}, [(5, 7)]),
]

NORMALIZATION = [
    Case("BatchNorm", {"fix_gamma": False}, [(5, 3, 7), (3,), (3,), (3,), uniform(0.5, 2, 3)]),
    Case("BatchNorm", {}, [(5, 3, 2, 3), np.ones(3), (3,), (3,), uniform(0.5, 2, 3)]),
    Case("BatchNorm", {"fix_gamma": False, "axis": -1}, [(5, 3), (3,), (3,), (3,), uniform(0.5, 2, 3)]),
    Case(
        "BatchNorm", {"fix_gamma": False, "use_global_stats": True}, [(5, 3, 7), (3,), (3,), (3,), uniform(0.5, 2, 3)]
    ),
    Case(
        "BatchNorm",
        {"fix_gamma": False, "use_global_stats": True, "axis": 3},
        [(3, 2, 5, 4), (4,), (4,), (4,), uniform(0.5, 2, 4)],
    ),
    Case("InstanceNorm", {}, [single(5, 3, 4, 2), single(3), single(3)]),
    *(Case("L2Normalization", {"mode": mode}, [(5, 3, 4, 2)]) for mode in ("instance", "channel", "spatial")),
    Case("LayerNorm", {}, [(5, 3, 7), (7,), (7,)]),
    Case("LayerNorm", {"axis": 1}, [(5, 3, 7), (3,), (3,)]),
]

POSITIVE = uniform(0.5, 2, 3)

BATCH_NORM_PARTS = [
    *(
        case
        for axis, shape in ((1, (5, 3, 4, 2)), (-1, (5, 4, 3)), (0, (3, 7)))
        for case in (
            Case("_tofu_batch_norm_sum", {"axis": axis}, [shape], ()),
            Case("_tofu_batch_norm_squares", {"axis": axis, "count": 40}, [shape, (3,)], (), double=(1,)),
            Case("_tofu_batch_norm_backward_sums", {"axis": axis}, [shape, shape, (3,), POSITIVE], ()),
        )
    ),
    *(
        case
        for attributes in ({"fix_gamma": False, "eps": 2e-5}, {"axis": -1})
        for shape in ((5, 4, 3) if "axis" in attributes else (5, 3, 4, 2),)
        for gamma in ((3,) if "eps" in attributes else np.ones(3),)
        for case in (
            Case(
                "_tofu_batch_norm_apply",
                {**attributes, "count": 40},
                [shape, gamma, (3,), (3,), POSITIVE],
                (),
                double=(3, 4),
            ),
            Case("_tofu_batch_norm_global", attributes, [shape, gamma, (3,), (3,), POSITIVE], ()),
            Case(
                "_tofu_batch_norm_backward_apply",
                {**attributes, "count": 40},
                [shape, shape, (3,), POSITIVE, gamma, (3,), POSITIVE, (3,), (3,)],
                (),
                double=(7, 8),
            ),
        )
    ),
]

LAYER_NORM_PARTS = [
    case
    for axis, shape, extent, lines in ((-1, (4, 3, 5), 5, (4, 3, 1)), (1, (4, 5, 3), 5, (4, 1, 3)))
    for attributes in ({"axis": axis},)
    for count in ({"count": 8},)
    for std in (uniform(0.5, 2, *lines),)
    for case in (
        Case("_tofu_layer_norm_sum", attributes, [shape], ()),
        Case("_tofu_layer_norm_squares", {**attributes, **count}, [shape, lines], (), double=(1,)),
        Case(
            "_tofu_layer_norm_apply",
            {**attributes, **count},
            [shape, (extent,), (extent,), lines, std],
            (),
            double=(3, 4),
        ),
        Case("_tofu_layer_norm_backward_sums", attributes, [shape, shape, (extent,), lines, std], ()),
        Case(
            "_tofu_layer_norm_backward_apply",
            {**attributes, **count},
            [shape, shape, (extent,), lines, std, lines, lines],
            (),
            double=(5, 6),
        ),
    )
]

SOFTMAX_PARTS = [
    case
    for axis, shape, lines in ((-1, (4, 3, 5), (4, 3, 1)), (1, (4, 5, 3), (4, 1, 3)))
    for attributes in ({"axis": axis, "temperature": 2.0},)
    for sums in (uniform(2, 3, *lines),)
    for case in (
        Case("_tofu_softmax_maximum", {"axis": axis}, [shape], ()),
        Case("_tofu_softmax_sum", attributes, [shape, lines], ()),
        Case("_tofu_softmax_apply", attributes, [shape, lines, sums], (), double=(2,)),
        Case("_tofu_log_softmax_apply", attributes, [shape, lines, sums], (), double=(2,)),
        Case("_tofu_softmax_backward_sum", {"axis": axis}, [shape, shape], ()),
        Case("_tofu_log_softmax_backward_sum", {"axis": axis}, [shape], ()),
        Case("_tofu_softmax_backward_apply", attributes, [shape, shape, lines], (), double=(2,)),
        Case("_tofu_log_softmax_backward_apply", attributes, [shape, shape, lines], (), double=(2,)),
    )
]

RESHAPE = [
    Case("Flatten", {}, [(5, 3, 2, 2)]),
    Case("Flatten", {}, [(5, 3)]),
    Case("Reshape", {"shape": (-1, 6)}, [(5, 3, 4)]),
    Case("Reshape", {"shape": (0, -1)}, [(5, 3, 4)]),
    Case("Reshape", {"shape": (5, 2, 6)}, [(5, 3, 4)]),
    Case("Reshape", {"shape": (10, 3)}, [(5, 6)]),
    Case("Reshape", {"shape": (0, 2, 3)}, [(5, 6)]),
    Case("Reshape", {"shape": (-3, 0)}, [(5, 3, 4)]),
    Case("Reshape", {"shape": (-1, 0), "reverse": True}, [(5, 3, 4)]),
    Case("Reshape", {"shape": (3, 2)}, [(2, 3)]),
    Case("expand_dims", {"axis": 1}, [(5, 3)]),
    Case("squeeze", {"axis": 1}, [(5, 1, 3)]),
    Case("reshape_like", {}, [(5, 6), (5, 3, 2)]),
]

LAYOUT = [
    Case("transpose", {}, [(5, 3, 7)]),
    Case("transpose", {"axes": (1, 2, 0)}, [(5, 3, 7)]),
    Case("SwapAxis", {"dim1": 0, "dim2": 2}, [(5, 3, 4)]),
    Case("Concat", {"num_args": 3, "dim": 1}, [(5, 3, 4), (5, 1, 4), (5, 2, 4)]),
    Case("_rnn_param_concat", {"num_args": 3, "dim": 0}, [(6,), (4,), (5,)]),
    Case("SliceChannel", {"num_outputs": 3}, [(5, 6, 3)]),
    Case("SliceChannel", {"num_outputs": 3, "axis": -1, "squeeze_axis": True}, [(5, 4, 3)]),
    Case("slice_axis", {"axis": 1, "begin": -3, "end": None}, [(5, 4, 3)]),
    Case("stack", {"num_args": 2, "axis": 1}, [(5, 3), (5, 3)]),
]

INDEXING = [
    Case("Embedding", {"input_dim": 7, "output_dim": 5}, [labels(7, 5, 3), (7, 5)], wrt=(1,)),
    Case("take", {}, [(7, 5), labels(7, 3, 5)], wrt=(0,)),
    Case("take", {"axis": 1, "mode": "wrap"}, [(5, 7, 3), labels(9, 5)], wrt=(0,)),
    Case("pick", {}, [(5, 7), labels(7, 5)], wrt=(0,)),
    Case("pick", {"axis": 1, "keepdims": True}, [(5, 7, 3), labels(7, 5, 1, 3)], wrt=(0,)),
    Case("one_hot", {"depth": 7}, [labels(7, 5)]),
]

CONSTANT = [
    Case("_zeros", {"shape": (5, 7), "dtype": "float64"}, [], wrt=()),
    Case("_ones", {"shape": (5, 7), "dtype": "float64"}, [], wrt=()),
    Case("_full", {"shape": (5, 7), "value": 3.0, "dtype": "float64"}, [], wrt=()),
]

UPDATE = {"lr": 0.125, "wd": 0.25, "rescale_grad": 0.5, "clip_gradient": 0.25}
STATE = uniform(0.5, 1, 5, 7)
HALF, SINGLE = uniform(-1, 1, 5, 7).astype("float16"), uniform(-1, 1, 5, 7).astype("float32")
OPTIMIZER = [
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
]

DECONVOLUTION = [
    Case(
        "Deconvolution",
        {"kernel": (4, 4), "stride": (2, 2), "pad": (1, 1), "num_filter": 5},
        [(3, 5, 5, 4), (5, 5, 4, 4)],
    ),
    Case(
        "Deconvolution",
        {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "adj": (1, 1), "num_filter": 3},
        [(3, 2, 5, 4), (2, 3, 3, 3)],
    ),
    Case("Deconvolution", {"kernel": (3, 3), "num_group": 3, "num_filter": 6}, [(3, 6, 5, 4), (6, 2, 3, 3)]),
    Case("Deconvolution", {"kernel": (3,), "dilate": (2,), "num_filter": 5}, [(3, 3, 5), (3, 5, 3)]),
]

RESAMPLING = [
    Case("slice", {"begin": (1, None, 0), "end": (4, None, 3), "step": (2, 1, 1)}, [(5, 3, 7)]),
    Case("slice", {"begin": (None, 1), "end": (None, 3)}, [(5, 4)]),
    Case("slice", {"begin": (4,), "end": (0,), "step": (-2,)}, [(5, 4)]),
    Case("reverse", {"axis": 1}, [(5, 3)]),
    Case("repeat", {"repeats": 3, "axis": 1}, [(5, 3, 2)]),
    Case("tile", {"reps": (1, 3)}, [(5, 3)]),
    Case("tile", {"reps": (3,)}, [(5, 3)]),
    Case("UpSampling", {"scale": 2, "sample_type": "nearest", "num_args": 1}, [(3, 5, 3, 4)]),
    Case("Pad", {"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 2, 2, 1), "constant_value": 0.5}, [(3, 5, 3, 4)]),
]

ORDERING = [
    Case("argmax", {"axis": 1}, [(3, 5)], wrt=()),
    Case("argmin", {"axis": -2, "keepdims": True}, [(3, 5, 3)], wrt=()),
    Case("sort", {"axis": 1}, [(3, 5)], wrt=()),
    Case("sort", {"axis": 0, "is_ascend": False}, [(3, 5)], wrt=()),
    Case("argsort", {"axis": 1, "dtype": "float64"}, [(3, 5)], wrt=()),
]

# The parameters of one layer: 4 or 3 gates with weights for 4 inputs and 3 states and two biases each.
SEQUENCE = [
    Case(
        "RNN",
        {"mode": "lstm", "state_size": 3, "num_layers": 1, "state_outputs": True},
        [(4, 5, 4), (108,), (1, 5, 3), (1, 5, 3)],
    ),
    Case("RNN", {"mode": "gru", "state_size": 3, "num_layers": 1}, [(4, 5, 4), (81,), (1, 5, 3)]),
    Case(
        "RNN",
        {"mode": "rnn_tanh", "state_size": 3, "num_layers": 1, "state_outputs": True},
        [(4, 5, 4), (27,), (1, 5, 3)],
    ),
    Case("SequenceMask", {"use_sequence_length": True}, [(4, 3, 2), np.array([1.0, 4, 2])]),
    Case("SequenceMask", {"use_sequence_length": True, "axis": 1, "value": -1.0}, [(3, 4, 2), np.array([1.0, 4, 2])]),
    Case("SequenceMask", {}, [(3, 4, 2)]),
    Case("SequenceReverse", {"use_sequence_length": True}, [(4, 3, 2), np.array([1.0, 4, 2])]),
    Case("SequenceReverse", {}, [(5, 3, 2)]),
]

CASES = [
    *DECONVOLUTION,
    *RESAMPLING,
    *ORDERING,
    *SEQUENCE,
    *MATMUL,
    *CONVOLUTION,
    *POOLING,
    *ACTIVATION,
    *UNARY,
    *SCALAR,
    *BINARY,
    *BROADCAST,
    *REDUCTION,
    *SOFTMAX,
    *LOSS,
    *DROPOUT,
    *NORMALIZATION,
    *BATCH_NORM_PARTS,
    *LAYER_NORM_PARTS,
    *SOFTMAX_PARTS,
    *RESHAPE,
    *LAYOUT,
    *INDEXING,
    *CONSTANT,
    *OPTIMIZER,
]
