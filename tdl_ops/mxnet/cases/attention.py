"""Cases for attention with interleaved queries, keys and values: two heads of three numbers."""

from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import single

HEADS = {"heads": 2}
NAME = "_contrib_interleaved_matmul_"

CASES = [
    Case(f"{NAME}selfatt_qk", HEADS, [single(4, 3, 18)]),
    Case(f"{NAME}selfatt_valatt", HEADS, [single(4, 3, 18), single(6, 4, 4)]),
    Case(f"{NAME}encdec_qk", HEADS, [single(4, 3, 6), single(5, 3, 12)]),
    Case(f"{NAME}encdec_valatt", HEADS, [single(5, 3, 12), single(6, 4, 5)]),
    Case("_tofu_selfatt_qk", HEADS, [single(4, 3, 18)], ()),
    Case("_tofu_selfatt_qk_backward", HEADS, [single(3, 2, 4, 4), single(4, 3, 18)], ()),
    Case("_tofu_selfatt_valatt", HEADS, [single(4, 3, 18), single(3, 2, 4, 4)], ()),
    Case("_tofu_selfatt_valatt_backward", HEADS, [single(4, 3, 6), single(4, 3, 18), single(3, 2, 4, 4)], ()),
    Case("_tofu_encdec_qk", HEADS, [single(4, 3, 6), single(5, 3, 12)], ()),
    Case("_tofu_encdec_qk_backward", HEADS, [single(3, 2, 4, 5), single(4, 3, 6), single(5, 3, 12)], ()),
    Case("_tofu_encdec_valatt", HEADS, [single(5, 3, 12), single(3, 2, 4, 5)], ()),
    Case("_tofu_encdec_valatt_backward", HEADS, [single(4, 3, 6), single(5, 3, 12), single(3, 2, 4, 5)], ()),
]
