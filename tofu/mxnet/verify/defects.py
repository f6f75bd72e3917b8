"""List attributes and shapes for which MXNet 1.9.1 computes wrong results. Tofu cannot verify these."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tdl_ops.mxnet.case import Case
from tofu.mxnet.frontend.recurrent_layers import can_be_split, has_wrong_gradients
from tofu.verification.kernel import Shape
from tofu.verification.numbers import Numbers


def _has_parts_of_one_element(shape: Shape) -> bool:
    return prod(shape) == max(shape[0], *shape[2:])


def _has_uneven_heads(*matrices: int) -> Callable[[Case], bool]:
    def is_uneven(case: Case) -> bool:
        heads = int(case.attributes["heads"])
        pairs = zip(case.numbers, matrices, strict=False)
        return any(numbers.shape[-1] % (heads * count) for numbers, count in pairs)

    return is_uneven


def _has_other_heads(case: Case) -> bool:
    projections, attention = case.numbers
    return attention.shape[0] != projections.shape[1] * int(case.attributes["heads"])


def _has_no_alignment(case: Case) -> bool:
    data, label, *lengths = case.numbers
    uses_data_lengths = str(case.attributes.get("use_data_lengths", False)) == "True"
    steps = lengths[0].low if lengths and uses_data_lengths and isinstance(lengths[0], Numbers) else data.shape[0]
    return steps < 2 * label.shape[1] - 1 or data.shape[2] < 2


def _splits_outside(case: Case) -> bool:
    return any(begin > case.numbers[0].shape[2] for begin in case.attributes["indices"])


def _has_stride_and_dilation(case: Case) -> bool:
    return all(max(case.attributes.get(name) or (1,)) > 1 for name in ("stride", "dilate"))


def _has_wrong_layers(case: Case) -> bool:
    node = {"op": case.op, "attrs": {name: str(value) for name, value in case.attributes.items()}}
    return can_be_split(node) and has_wrong_gradients(node)


_UNCHECKED_HEADS = (
    "widths that are no multiple of the heads, and attention with another number of heads, are not checked"
)
_IN_HALF_PRECISION = (
    lambda case: case.attributes.get("dtype") == "float16",
    "in half precision all numbers are 1",
)
DEFECTS: dict[str, tuple[Callable[[Case], bool], str]] = {
    "_arange": _IN_HALF_PRECISION,
    "_npi_arange": _IN_HALF_PRECISION,
    "Deconvolution": (
        _has_stride_and_dilation,
        "with stride and dilate above 1 the output is wrong in all types but float32 (refused: tofu/mxnet/frontend/refusals.py)",
    ),
    "RNN": (
        _has_wrong_layers,
        "in all types but oneDNN's float32, gradients are wrong: of the parameters for rnn_tanh and rnn_relu from three layers on, and "
        "with dropout between layers, for GRU also of data and states (avoided: tofu/mxnet/frontend/recurrent_layers.py)",
    ),
    "LRN": (
        lambda case: _has_parts_of_one_element(case.numbers[0].shape),
        "the gradient of a tensor of one element is uninitialised memory",
    ),
    "_contrib_interleaved_matmul_selfatt_qk": (_has_uneven_heads(3), _UNCHECKED_HEADS),
    "_contrib_interleaved_matmul_selfatt_valatt": (
        lambda case: _has_uneven_heads(3)(case) or _has_other_heads(case),
        _UNCHECKED_HEADS,
    ),
    "_contrib_interleaved_matmul_encdec_qk": (_has_uneven_heads(1, 2), _UNCHECKED_HEADS),
    "_contrib_interleaved_matmul_encdec_valatt": (
        lambda case: _has_uneven_heads(2)(case) or _has_other_heads(case),
        _UNCHECKED_HEADS,
    ),
    "CTCLoss": (
        _has_no_alignment,
        "the loss and the gradient of labels that do not fit are uninitialised memory",
    ),
    "_npi_dsplit": (_splits_outside, "parts beyond the end are written nevertheless"),
    "_contrib_BilinearResize2D": (
        lambda case: len({numbers.shape[2:] for numbers in case.numbers}) < len(case.numbers),
        "between images of the same size the gradient of `like` is not written",
    ),
}


def find_defect(case: Case) -> str:
    """Return a sentence about a known mistake of MXNet in this case, or ""."""
    is_affected, reason = DEFECTS.get(case.op, (lambda case: False, ""))
    return reason if is_affected(case) else ""
