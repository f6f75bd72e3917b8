"""CTCLoss, with and without lengths."""

from __future__ import annotations

from dataclasses import replace

from tofu.verify.case import Case, single, whole

FIRST, LABELS = single(5, 3, 4), replace(whole(1, 4, 3, 2), dtype="float32")
LENGTHS = [replace(whole(4, 6, 3), dtype="float32"), replace(whole(1, 3, 3), dtype="float32")]

CASES = [
    Case("CTCLoss", {}, [FIRST, LABELS]),
    Case("CTCLoss", {"use_data_lengths": True, "use_label_lengths": True}, [FIRST, LABELS, *LENGTHS]),
]
