"""List splits of MXNet's operators that work in a test but that Tofu must not offer, each with the reason."""

from __future__ import annotations

from tofu.verification.missing import Explanation

EXPLANATIONS = (
    Explanation(
        "scatter_nd",
        r"inputs \(dimension \d, dimension \d\) -> reduced",
        "MXNet keeps one of several values for an element, and parts would be added; the coordinates in the case are distinct",
    ),
    Explanation("size_array", r"inputs", "one number, known from the shape"),
    Explanation(
        "SoftmaxOutput|_tofu_softmax_output_apply",
        r"inputs \(dimension 3, .*dimension [01]\) -> concatenated along 3",
        "the label merges all positions in one dimension, so a part along an inner position is no box; the forward operator ignores it",
    ),
    Explanation(
        "Dropout",
        r"inputs \(dimension \d\)",
        "along axes= all elements share a random number; two workers would draw different ones, here both have the same seed",
    ),
    Explanation(
        r"(_backward_)?amp_multicast",
        r"inputs \(.*dimension \d.*\) -> .*replicated",
        "each tensor could be split alone; if two share a dimension, splitting both replicates less",
    ),
    Explanation(
        r"(_backward)?_contrib_AdaptiveAvgPooling2D",
        r"inputs \(dimension \d\)",
        "if the output is as large as the data, every window is one element",
    ),
    Explanation(
        "_contrib_MultiBoxTarget",
        r"inputs \(whole, dimension 1,",
        "the targets of several objects can be added only if each matches its own anchors, as in this case",
    ),
    Explanation(
        "_backward_BatchNorm",
        r"inputs \(dimension \d, whole, whole, dimension \d, ",
        "with use_global_stats; the lowering to parts has these axes (tofu/mxnet/lowerings/normalization.py)",
    ),
    Explanation(
        "_backward_Pooling",
        r"inputs \(whole, dimension \d, whole\)",
        "among equal maxima the earliest gets the gradient, in the whole and in each part; the numbers in the case are distinct",
    ),
)
