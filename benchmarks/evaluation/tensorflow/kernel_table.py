"""How TensorFlow is asked for the operators whose descriptions `kernels.py` holds against its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EXACT, SINGLE, INTEGER, ROUNDED = 1e-9, 1e-4, 1.0, 150.0  # ROUNDED: of sums among 32-bit integers


@dataclass(frozen=True)
class Kernel:
    """How TensorFlow is asked for an operator.

    `arguments` are those that the description has as inputs, `name:type=value`; `name.0` is the first of a list. Types: d is double
    precision (the default), f single, i an integer of 32 bits, l one of 64; b a byte and w an integer of 32 bits that stand for numbers;
    v a variable, whose new value is the result. Values: a number, `<n` for whole numbers below n, `~n` for a permutation of n, and at
    random without one. `constants` are TensorFlow's other arguments, and `attributes` those of the description.
    """

    arguments: str
    tolerance: float = EXACT
    constants: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)


BLOCKS = {"block_shape": [2, 2], "crops": [[0, 1], [1, 0]]}
PADDED = {"block_shape": [2, 2], "paddings": [[0, 1], [1, 0]]}
RANGE, RANGES = "min:f=-1 max:f=2", "min_{0}:f=-1 max_{0}:f=2 min_{1}:f=-0.5 max_{1}:f=1"
INPUT_RANGE = "min_input:f=-1 max_input:f=2"
WIDE = "input:w input_min:f=-1 input_max:f=2"
WINDOW = {"strides": [1, 1, 1, 1], "padding": "VALID"}
POOL = {"ksize": [1, 2, 2, 1], **WINDOW}
PROXIMAL = "lr l1 l2"

CELLS = {
    "BatchToSpace": Kernel("input", constants={"block_size": 2, "crops": BLOCKS["crops"]}),
    "BatchToSpaceND": Kernel("input", constants=BLOCKS),
    "SpaceToBatch": Kernel("input", constants={"block_size": 2, "paddings": PADDED["paddings"]}),
    "SpaceToBatchND": Kernel("input", constants=PADDED),
    "BroadcastArgs": Kernel("s0:i=3 s1:i=1"),
    "ConcatOffset": Kernel("shape.0:i=4 shape.1:i=4", constants={"concat_dim": 1}),
    "Diag": Kernel("diagonal"),
    "DiagPart": Kernel("input"),
    "MatrixSetDiag": Kernel("input diagonal"),
    "MatrixBandPart": Kernel("input", constants={"num_lower": 1, "num_upper": 2}),
    "ExtractImagePatches": Kernel(
        "images",
        constants={"ksizes": [1, 2, 2, 1], "strides": [1, 3, 2, 1], "rates": [1, 2, 1, 1], "padding": "VALID"},
    ),
    "MirrorPad": Kernel("input", constants={"paddings": [[0, 0], [1, 2]], "mode": "SYMMETRIC"}),
    "Rank": Kernel("input"),
    "StridedSliceAssign": Kernel("ref:v value", constants={"begin": [1, 2], "end": [4, 4], "strides": [1, 1]}),
    "Bincount": Kernel("arr:i=<4 weights", constants={"size": 4}),
    "InvertPermutation": Kernel("x:i=~5"),
    "UnsortedSegmentSum": Kernel("data segment_ids:i=<4", constants={"num_segments": 4}),
    "UnsortedSegmentMax": Kernel("data segment_ids:i=<4", constants={"num_segments": 4}),
    "ScatterDiv": Kernel("resource:v indices:i=<4 updates"),
}
NUMBERS = {
    "FloorDiv": Kernel("x y"),
    "SquaredDifference": Kernel("x y"),
    "TruncateDiv": Kernel("x:i=<30 y:i=7"),
    "ApproximateEqual": Kernel("x y", constants={"tolerance": 0.5}, attributes={"tolerance": 0.5}),
    "BiasAdd": Kernel("value bias"),
    "BiasAddV1": Kernel("value bias"),
    "Bucketize": Kernel("input", constants={"boundaries": [-0.5, 0.0, 0.5]}),
    "FakeQuantWithMinMaxArgs": Kernel("inputs:f", SINGLE),
    "FakeQuantWithMinMaxVars": Kernel("inputs:f min:f=-0.5 max:f=0.8", SINGLE),
    "FakeQuantWithMinMaxVarsPerChannel": Kernel("inputs:f min:f=-0.5 max:f=0.8", SINGLE),
    "QuantizeAndDequantizeV2": Kernel("input input_min=-1 input_max=1"),
    "QuantizeAndDequantizeV3": Kernel("input input_min=-1 input_max=1 num_bits:i=8", constants={"range_given": False}),
    "Dequantize": Kernel("input:b min_range:f=-1 max_range:f=2", SINGLE),
    "QuantizeV2": Kernel("input:f min_range:f=-1 max_range:f=2", INTEGER, {"T": "quint8"}),
    "AdjustContrastv2": Kernel("images:f contrast_factor:f", SINGLE),
    "Cross": Kernel("a b"),
    "MatrixSolveLs": Kernel("matrix rhs l2_regularizer"),
    "L2Loss": Kernel("t"),
    "InTopK": Kernel("predictions:f targets:i=<5", constants={"k": 2}),
    "SoftmaxCrossEntropyWithLogits": Kernel("features labels"),
    "SparseSoftmaxCrossEntropyWithLogits": Kernel("features labels:i=<5"),
    "Dilation2D": Kernel("input filter", constants={"rates": [1, 1, 1, 1], **WINDOW}),
}
UPDATES = {
    "ApplyAdadelta": Kernel("var:v accum:v=2 accum_update:v=3 lr rho epsilon grad"),
    "ApplyAdagrad": Kernel("var:v accum:v=2 lr grad"),
    "ApplyAdagradDA": Kernel(
        f"var:v gradient_accumulator:v gradient_squared_accumulator:v=2 grad {PROXIMAL} global_step:l=3"
    ),
    "ApplyAdam": Kernel("var:v m:v v:v=2 beta1_power beta2_power lr beta1 beta2 epsilon grad"),
    "ApplyCenteredRMSProp": Kernel("var:v mg:v ms:v=3 mom:v lr rho momentum epsilon grad"),
    "ApplyFtrl": Kernel(f"var:v accum:v=2 linear:v grad {PROXIMAL} lr_power=-0.5"),
    "ApplyFtrlV2": Kernel(f"var:v accum:v=2 linear:v grad {PROXIMAL} l2_shrinkage lr_power=-0.5"),
    "ApplyGradientDescent": Kernel("var:v alpha delta"),
    "ApplyMomentum": Kernel("var:v accum:v lr grad momentum"),
    "ApplyProximalAdagrad": Kernel(f"var:v accum:v=2 {PROXIMAL} grad"),
    "ApplyProximalGradientDescent": Kernel("var:v alpha l1 l2 delta"),
    "ApplyRMSProp": Kernel("var:v ms:v=2 mom:v lr rho momentum epsilon grad"),
}
NORMALIZED = [f"{one}:b {one}_min:f=0.5 {one}_max:f=2" for one in ("m", "v", "beta", "gamma")]
QUANTIZED = {
    "QuantizedAdd": Kernel(f"x:b y:b {RANGES.format('x', 'y')}", ROUNDED),
    "QuantizedMul": Kernel(f"x:b y:b {RANGES.format('x', 'y')}", SINGLE),
    "QuantizedBiasAdd": Kernel(f"input:b bias:b {RANGES.format('input', 'bias')}", ROUNDED, {"out_type": "qint32"}),
    "QuantizedBatchNormWithGlobalNormalization": Kernel(
        f"t:b t_min:f=-1 t_max:f=2 {' '.join(NORMALIZED)}",
        ROUNDED,
        {"variance_epsilon": 1e-3, "scale_after_normalization": True, "out_type": "qint32"},
    ),
    "QuantizedRelu": Kernel("features:b min_features:f=-1 max_features:f=2"),
    "QuantizedRelu6": Kernel("features:b min_features:f=-1 max_features:f=7"),
    "QuantizedMatMul": Kernel(f"a:b b:b {RANGES.format('a', 'b')}", SINGLE),
    "QuantizedConv2D": Kernel(f"input:b filter:b {RANGES.format('input', 'filter')}", SINGLE, WINDOW),
    "QuantizedAvgPool": Kernel(f"input:b {INPUT_RANGE}", INTEGER, POOL),
    "QuantizedMaxPool": Kernel(f"input:b {INPUT_RANGE}", constants=POOL),
    "Requantize": Kernel(
        f"{WIDE} requested_output_min:f=-0.5 requested_output_max:f=1", INTEGER, {"out_type": "quint8"}
    ),
    "RequantizationRange": Kernel(WIDE, SINGLE),
    "QuantizeDownAndShrinkRange": Kernel(WIDE, INTEGER, {"out_type": "quint8"}),
    "QuantizedConcat": Kernel(
        "values.0:b values.1:b input_mins.0:f=-1 input_mins.1:f=-0.5 input_maxes.0:f=2 input_maxes.1:f=3",
        INTEGER,
        {"concat_dim": 1},
    ),
    "QuantizedReshape": Kernel("tensor:b input_min:f=-1 input_max:f=2", constants={"shape": [4, 15]}),
    "QuantizedInstanceNorm": Kernel(
        "x:b x_min:f=-1 x_max:f=2", INTEGER, {"output_range_given": True, "given_y_min": -4.0, "given_y_max": 4.0}
    ),
}
KERNELS = CELLS | NUMBERS | UPDATES | QUANTIZED
