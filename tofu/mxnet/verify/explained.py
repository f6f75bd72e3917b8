"""Exact cuts of MXNet's operators that are no strategies, each with the reason."""

from __future__ import annotations

from tofu.verification.explained import Explanation

_UNEQUAL_FACTORS = (
    "the sizes of both shapes do not nest: where the outermost dimension is split, an inner cell's index is a quotient, which "
    "interval analysis does not cover"
)

EXPLANATIONS = (
    Explanation(
        "scatter_nd",
        r"inputs \(dimension \d, dimension \d\) -> REDUCE",
        "of several values for one cell MXNet keeps one, and parts would add theirs; these coordinates are distinct",
    ),
    Explanation("size_array", r"inputs", "one number, known from the shape"),
    Explanation(
        "SoftmaxOutput|_tofu_softmax_output_apply",
        r"inputs \(dimension 3, .*dimension [01]\) -> CONCAT along 3",
        "the label has all positions in one dimension, of which an inner one's part is no box; the forward operator does not read it",
    ),
    Explanation(
        "Dropout",
        r"inputs \(dimension \d\)",
        "along axes= all cells share what is drawn; two workers would draw different numbers, here both have the same seed",
    ),
    Explanation(
        r"(_backward_)?amp_multicast",
        r"inputs \(.*dimension \d.*\) -> .*REPLICATE",
        "each tensor could be split alone; where two have a dimension in common both are, which leaves less whole",
    ),
    Explanation(r"Reshape|_npx_reshape|_backward_reshape", r"inputs \(dimension 0\)", _UNEQUAL_FACTORS),
    Explanation(
        r"(_backward)?_contrib_AdaptiveAvgPooling2D",
        r"inputs \(dimension \d\)",
        "where the output is as large as the data, every window is one cell",
    ),
    Explanation(
        "_contrib_MultiBoxTarget",
        r"inputs \(whole, dimension 1,",
        "the targets of several objects add up only where each matches anchors of its own, as these do",
    ),
    Explanation(
        "_backward_BatchNorm",
        r"inputs \(dimension \d, whole, whole, dimension \d, ",
        "with use_global_stats; the plan has these axes in parts (tofu/mxnet/lowerings/normalization.py), and prices them there",
    ),
    Explanation(
        "_backward_Pooling",
        r"inputs \(whole, dimension \d, whole\)",
        "of several largest cells the first gets the gradient, and each part would give it to its own first; these numbers are distinct",
    ),
)
