"""Compare every part's CPU kernel with its GPU code under an emulated driver, on random arrays."""

import mxnet as mx
import numpy as np

from tests.shared.json_graph import invoke
from tofu import _mxnet

# Letters as in csrc/nnvm/parts/lowered_operator.h: d data, v vector, r vector (single precision for half), V vector in double, l line sums,
# L line sums in double, n line numbers, N a number, i indices per position, I indices per line, t result of a lookup, x indices of the
# data's type.
PARTS = {
    "_tofu_batch_norm_sum": "d>V",
    "_tofu_batch_norm_squares": "dV>V",
    "_tofu_batch_norm_apply": "drrVV>drr",
    "_tofu_batch_norm_global": "drrrr>drr",
    "_tofu_batch_norm_backward_sums": "ddrr>VV",
    "_tofu_batch_norm_backward_apply": "ddrrrrrVV>drr",
    "_tofu_layer_norm_sum": "d>L",
    "_tofu_layer_norm_squares": "dL>L",
    "_tofu_layer_norm_apply": "dvvLL>dll",
    "_tofu_layer_norm_backward_sums": "ddvll>LL",
    "_tofu_layer_norm_backward_apply": "ddvllLL>dvv",
    "_tofu_divide_by_window": "d>d",
    "_tofu_softmax_maximum": "d>l",
    "_tofu_softmax_sum": "dl>L",
    "_tofu_softmax_apply": "dlL>d",
    "_tofu_log_softmax_apply": "dlL>d",
    "_tofu_softmax_backward_sum": "dd>L",
    "_tofu_log_softmax_backward_sum": "d>L",
    "_tofu_softmax_backward_apply": "ddL>d",
    "_tofu_log_softmax_backward_apply": "ddL>d",
    "_tofu_valid_labels": "d>N",
    "_tofu_valid_cells": "d>N",
    "_tofu_make_loss_gradient": "dN>d",
    "_tofu_scale": "d>d",
    "_tofu_softmax_output_apply": "dlLn>d",
    "_tofu_softmax_output_gradient": "dn>d",
    "_tofu_softmax_output_gradient_by_count": "dnN>d",
    "_tofu_take": "di>t",
    "_tofu_take_backward": "di>t",
    "_tofu_pick": "dI>t",
    "_tofu_pick_backward": "lI>t",
    "_tofu_one_hot": "x>t",
    "_tofu_sequence_mask": "dI>d",
}
# Shapes and axes whose lines or positions are adjacent in memory, or neither; longer and shorter than a block.
VIEWS = [
    ((3, 7, 5), 1),
    ((2, 300), 1),
    ((300, 3), 0),
    ((40, 33), -1),
    ((2, 3, 2, 350), 1),
    ((1, 1), 0),
    ((5, 2, 65), 1),
]
INDEX_TYPES = ["float64", "float32", "float16", "int64", "int32", "int8", "uint8"]
TOLERANCES = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3}


def draw(letter, rng, shape, axis, dtype):
    line = tuple(1 if d == axis % len(shape) else n for d, n in enumerate(shape))
    if letter == "N":
        return mx.nd.array([7], dtype="float64")
    if letter in "iI":
        extents = shape[axis] if letter == "i" else line
        return mx.nd.array(rng.randint(0, 2 * shape[axis], extents), dtype=rng.choice(INDEX_TYPES))
    if letter == "x":
        return mx.nd.array(rng.randint(0, 2 * shape[axis], shape), dtype=dtype)
    like = {"r": "v", "V": "v", "L": "l", "n": "l"}.get(letter, letter)
    extents = {"d": shape, "v": shape[axis : axis + 1 or None], "l": line}[like]
    wide = {"V": "float64", "L": "float64", "r": "float32" if dtype == "float16" else dtype}
    return mx.nd.array(rng.uniform(0.5, 1.5, extents), dtype=wide.get(letter, dtype))


def run(name, inputs, attributes):
    """Return the outputs of a part and its inputs, which it may change."""
    copies = [array.copy() for array in inputs]
    return [array.asnumpy() for array in [*invoke(name, copies, attributes), *copies]]


def main():
    cases = []
    for name, signature in PARTS.items():
        for number, (shape, axis) in enumerate(VIEWS):
            for dtype in TOLERANCES:
                rng = np.random.RandomState(number)
                letters = signature.split(">")[0]
                inputs = [draw(letter, rng, shape, axis, dtype) for letter in letters]
                attributes = {"axis": axis, "count": 60, "fix_gamma": number % 2 == 0, "temperature": 1.5, "eps": 1e-3}
                attributes |= {"kernel": 3, "stride": 2, "pad": 1, "end": 2 * shape[axis] - 1}
                attributes |= {"classes": shape[axis] + 9, "first": number % 2}
                if set("iIx") & set(letters):
                    part = {"first": shape[axis] // 3, "rows": 2 * shape[axis], "extent": shape[axis] + 1}
                    mode = ["clip", "wrap", "exact", "length"][number % 4]
                    attributes |= part | {"axis": axis % len(shape), "mode": mode, "keepdims": True}
                attributes |= {"ignore_label": 1, "use_ignore": number % 3 == 0, "smooth_alpha": 0.1, "grad_scale": 2}
                attributes |= {"valid_thresh": 1}
                cases.append((name, dtype, inputs, attributes, run(name, inputs, attributes)))
    _mxnet.run_gpu_code_on_cpu()
    for name, dtype, inputs, attributes, expected in cases:
        found = run(name, inputs, attributes)
        for position, (array, wanted) in enumerate(zip(found, expected, strict=True)):
            assert array.dtype == wanted.dtype
            what = f"{name} {attributes} array {position}"
            np.testing.assert_allclose(array, wanted, TOLERANCES[dtype], TOLERANCES[dtype], err_msg=what)
    print(*PARTS, sep="\n")


if __name__ == "__main__":
    main()
