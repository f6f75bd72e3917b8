"""Deformable convolution split by rows and columns of its output: each worker reads all data where its part of the offsets says.

The parts: `csrc/nnvm/parts/deformable.cc`, MXNet's own kernels, described in `tdl_ops/mxnet/deformable.py`.
"""

from __future__ import annotations

from tofu.lowering.parts import Lowering, Parts

STOCK = "_contrib_DeformableConvolution"
PART = "_tofu_deformable_convolution"


def _expand(parts: Parts) -> None:
    parts.last_operator(PART, parts.whole.attributes, parts.whole.inputs)


def _expand_gradient(parts: Parts) -> None:
    parts.last_operator(f"{PART}_backward", parts.whole.attributes, parts.whole.inputs)


LOWERINGS = {STOCK: Lowering(_expand), f"_backward_{STOCK}": Lowering(_expand_gradient)}
