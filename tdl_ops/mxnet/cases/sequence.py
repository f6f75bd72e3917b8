from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import lengths

CASES = [
    Case("SequenceMask", {"use_sequence_length": True}, [(4, 3, 2), lengths(4, 3)]),
    Case("SequenceMask", {"use_sequence_length": True, "axis": 1, "value": -1.0}, [(3, 4, 2), lengths(4, 3)]),
    Case("SequenceMask", {}, [(3, 4, 2)]),
    Case("SequenceLast", {"use_sequence_length": True}, [(4, 3, 2), lengths(4, 3)]),
    Case("SequenceLast", {"use_sequence_length": True, "axis": 1}, [(3, 4, 2), lengths(4, 3)]),
    Case("SequenceLast", {}, [(4, 3, 2)]),
    Case("SequenceReverse", {"use_sequence_length": True}, [(4, 3, 2), lengths(4, 3)]),
    Case("SequenceReverse", {}, [(5, 3, 2)]),
]
