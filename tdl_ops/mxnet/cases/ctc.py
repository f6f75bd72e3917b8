from dataclasses import replace

from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import Fixed, Numbers, labels, lengths, single


def positions(low: int, high: int, *shape: int) -> Numbers:
    return replace(labels(high, *shape), low=low, dtype="float32")


# Steps, batch and classes; up to four labels. All labels of a sample, with a blank between equal ones, fit its steps.
FIRST, LABELS = single(11, 3, 5), positions(1, 5, 3, 4)
LENGTHS = [replace(lengths(extent, 3), dtype="float32", low=low) for low, extent in ((7, 11), (1, 4))]

WITH_LENGTHS = {"use_data_lengths": True, "use_label_lengths": True}

CASES = [
    Case("CTCLoss", {}, [FIRST, LABELS]),
    Case("CTCLoss", WITH_LENGTHS, [FIRST, LABELS, *LENGTHS]),
    Case("_tofu_ctc_loss", {}, [FIRST, LABELS], ()),
    Case("_tofu_ctc_loss", {}, [FIRST, Fixed(((1, 2, 3), (0, 0, 0), (0, 1, 2)), "float32")], ()),
    Case("_tofu_ctc_loss", WITH_LENGTHS, [FIRST, LABELS, LENGTHS[0], Fixed((0, 0, 2), "float32")], ()),
]
